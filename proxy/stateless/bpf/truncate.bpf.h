#pragma once

// Forced truncation: long replies over UDP become truncated ones, so that their clients come over
// TCP.

enum {
    kTail = 288,         ///< where the scratch room has the message's last bytes
    kLongestTail = 160,  ///< of an OPT with its options; longer ones are left out
    kLongestShort = 432, ///< header, question and OPT; a multiple of 4
};

struct OptSearch {
    __u32 size;  ///< bytes at kTail
    __u32 found; ///< length of the OPT
};

/// A step of the search for an OPT that ends the message: 1 ends it. In a callback, because the
/// verifier would follow a loop here step by step.
static long look_for_opt(__u32 step, struct OptSearch* search) {
    const __u32 length = step + kOptRecord;
    const __u8* bytes = scratch_bytes();
    if (!bytes || length > search->size) {
        return 1;
    }
    const __u32 at = (kTail + search->size - length) & (kScratch - 1);
    if (bytes[at] == 0 && word(bytes, at + 1) == kTypeOpt &&
        word(bytes, at + 9) == length - kOptRecord) {
        search->found = length;
        return 1;
    }
    return 0;
}

/// Writes the lengths and checksums of a datagram whose message has `length` bytes now.
static __always_inline int finish_datagram(struct __sk_buff* skb, const struct Packet* p,
                                           __u8* bytes, __u32 length) {
    struct udphdr udp = {.source = p->flow.server_port,
                         .dest = p->flow.client_port,
                         .len = bpf_htons(kUdp + length)};
    __builtin_memset(bytes, 0, kLongestShort);
    barrier_var(length);
    if (length == 0 || length > kLongestShort ||
        bpf_skb_load_bytes(skb, p->l4 + kUdp, bytes, length) != 0) {
        return -1;
    }
    __u32 sum = bpf_csum_diff(0, 0, (__be32*)bytes, kLongestShort,
                              pseudo_sum(p, IPPROTO_UDP, kUdp + length));
    sum = ~fold(bpf_csum_diff(0, 0, (__be32*)&udp, sizeof udp, fold(sum))) & 0xffff;
    udp.check = sum ? sum : 0xffff;
    return bpf_skb_store_bytes(skb, p->l4, &udp, sizeof udp, 0) ||
           write_ip(skb, p, IPPROTO_UDP, kUdp + length, 1);
}

/// Leaves of the reply its header, with TC, its question and, where `to_its_end` the packet has all
/// of it and it is the last record, its OPT.
static __always_inline int truncate(struct __sk_buff* skb, const struct Packet* p, int to_its_end) {
    __u8* bytes = scratch_bytes();
    const __u32 whole = p->length - kUdp;
    __u32 kept = whole < kLongestQuery ? whole : kLongestQuery;
    if (!bytes || kept < kDnsHeader || bpf_skb_load_bytes(skb, p->l4 + kUdp, bytes, kept) != 0 ||
        !(bytes[2] & 0x80) || word(bytes, 4) != 1) {
        return -1;
    }
    __u32 end = behind_name(bytes, kept);
    if (end == 0 || end + kTypeAndClass > kept) {
        return -1;
    }
    end += kTypeAndClass;
    __u32 tail = whole - end;
    tail = tail < kLongestTail ? tail : kLongestTail;
    struct OptSearch search = {.size = tail};
    if (to_its_end && tail >= kOptRecord &&
        bpf_skb_load_bytes(skb, p->l4 + p->length - tail, bytes + kTail, tail) == 0) {
        bpf_loop(kLongestTail - kOptRecord + 1, look_for_opt, &search, 0);
    }
    const __u32 opt = search.found;
    const __u8 flags = bytes[2] | 0x02;
    const __u16 counts_[3] = {0, 0, opt ? bpf_htons(1) : 0};
    if (bpf_skb_store_bytes(skb, p->l4 + kUdp + 2, &flags, sizeof flags, 0) != 0 ||
        bpf_skb_store_bytes(skb, p->l4 + kUdp + 6, counts_, sizeof counts_, 0) != 0) {
        return -1;
    }
    const __u32 from = kTail + tail - opt;
    if (opt >= kOptRecord && opt <= kLongestTail && from <= kTail + kLongestTail &&
        bpf_skb_store_bytes(skb, p->l4 + kUdp + end, bytes + from, opt, 0) != 0) {
        return -1;
    }
    const __u32 length = end + opt;
    if (length > kLongestShort || bpf_skb_change_tail(skb, p->l4 + kUdp + length, 0) != 0) {
        return -1;
    }
    return finish_datagram(skb, p, bytes, length);
}
