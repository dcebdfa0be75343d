#pragma once
// From the server's UDP datagram to the one segment of the reply.
//
// What is dropped here is said to be stolen: of a packet that is shot the host's sending socket
// hears, and counts an error.

#include "proxy/stateless/bpf/truncate.bpf.h"

/// What the client is taken to receive at once until its next segment says it: what a server sends
/// at first (RFC 6928).
enum { kUnknownWindow = 14600, kFormErr = 1, kNotImp = 4 };

static __always_inline int read_udp(struct __sk_buff* skb, struct Packet* p) {
    if (reach(skb, kV4Headers + kUdp) != 0 || read_ip(skb, p, IPPROTO_UDP, 0) != 0) {
        return -1;
    }
    const struct udphdr* udp = transport(skb, p, kUdp);
    if (!udp || udp->source != settings.port) {
        return -1;
    }
    p->flow.client_port = udp->dest;
    p->flow.server_port = udp->source;
    p->check = udp->check;
    return p->length == bpf_ntohs(udp->len) && p->length >= kUdp + kDnsHeader &&
                   p->l4 + p->length <= skb->len
               ? 0
               : -1;
}

static __always_inline void expect_one_less(struct StatelessEntry* entry) {
    const __u32 seq = entry->seq;
    const __u16 id = entry->id;
    for (int tries = 0; tries < kTries; ++tries) {
        const struct Marks before = marks_of(entry);
        if (!is_of(entry, seq, id)) {
            return;
        }
        const struct Marks after = {.bits = before.bits - kReplies, .stamp = before.stamp};
        if (!(before.bits & kRepliesMask) || before.bits & kMany ||
            replace_marks(entry, before, after)) {
            return;
        }
    }
}

/// One of the expected replies has come. The client has got it, unless the kernel's TCP has the
/// query.
static __always_inline void one_reply_less(const struct Packet* p, struct StatelessEntry* entry) {
    if (entry->bits & kMany || (entry->bits & kRepliesMask) > kReplies) {
        if (!(entry->bits & kPromoted)) {
            set_bits(entry, kAnswered);
        }
        expect_one_less(entry);
    } else {
        forget(&p->flow);
    }
}

/// The kernel's TCP has the query, or the client a reply with these numbers.
static __always_inline int drop_reply(const struct Packet* p, struct StatelessEntry* entry) {
    COUNT(dropped);
    one_reply_less(p, entry);
    return TC_ACT_STOLEN;
}

/// Whether the OPT without options that the query got from us is the reply's last record.
static __always_inline int ends_with_opt(struct __sk_buff* skb, const struct Packet* p,
                                         struct OptRecord* opt) {
    return p->length >= kUdp + kDnsHeader + kOptRecord &&
           bpf_skb_load_bytes(skb, p->l4 + p->length - kOptRecord, opt, kOptRecord) == 0 &&
           opt->name == 0 && opt->type[0] == 0 && opt->type[1] == kTypeOpt && opt->length[0] == 0 &&
           opt->length[1] == 0;
}

/// The datagram becomes the segment in place, without the OPT where `opt` has one.
static __always_inline int to_segment(struct __sk_buff* skb, const struct Packet* p, __u32 seq,
                                      __u32 next, struct OptRecord* opt, __u16 additional) {
    const __u16 removed = opt ? kOptRecord : 0;
    const __u16 message = p->length - kUdp - removed;
    const __u16 length = kTcp + kLengthField + message;

    struct {
        struct tcphdr tcp;
        __u16 message;
        __u16 pseudo[3];
    } to = {};

    const __u16 from[6] = {p->flow.server_port,    p->flow.client_port, bpf_htons(p->length), 0,
                           bpf_htons(IPPROTO_UDP), bpf_htons(p->length)};
    to.tcp = tcp_header(p, seq, next, kFinFlag | kPushFlag | kAckFlag, kTcp, 1);
    to.message = bpf_htons(message);
    to.pseudo[0] = bpf_htons(IPPROTO_TCP);
    to.pseudo[1] = bpf_htons(length);
    __u32 sum = fold(
        bpf_csum_diff((__be32*)from, sizeof from, (__be32*)&to, sizeof to, ~p->check & 0xffff));
    if (opt) {
        const __u16 left = bpf_htons(bpf_ntohs(additional) - 1);
        sum += (~placed(sum_of(opt), message) & 0xffff) + (~bpf_htons(1) & 0xffff);
        if (bpf_skb_store_bytes(skb, p->l4 + kUdp + 10, &left, sizeof left, 0) != 0 ||
            bpf_skb_change_tail(skb, p->l4 + p->length - kOptRecord, 0) != 0) {
            return -1;
        }
    }
    to.tcp.check = ~fold(sum);
    if (bpf_skb_adjust_room(skb, kLonger, BPF_ADJ_ROOM_NET, 0) != 0 ||
        write_ip(skb, p, IPPROTO_TCP, length, 1) != 0) {
        return -1;
    }
    void* at = transport(skb, p, kTcp + kLengthField);
    if (!at) {
        return -1;
    }
    __builtin_memcpy(at, &to, kTcp + kLengthField);
    return 0;
}

/// The segment of the query once more, built of the reply's question, on its way in.
static __always_inline int receive_again(struct __sk_buff* skb, const struct Packet* p,
                                         const struct StatelessEntry* entry, __u16 questions) {
    __u8* bytes = scratch_bytes();
    __u32 total = entry->length;
    const __u32 opt = entry->bits & kHadOpt ? kOptRecord : 0;
    const __u32 at = kLengthField + kDnsHeader;
    __u32 question = total - at - opt;
    if (!bytes || questions != bpf_htons(1) || total > kLongestQuery + kLengthField ||
        question > kLongestName + kTypeAndClass || question == 0 ||
        p->length < kUdp + kDnsHeader + question) {
        return -1;
    }
    __builtin_memset(bytes, 0, 304);
    if (bpf_skb_load_bytes(skb, p->l4 + kUdp + kDnsHeader, bytes + at, question) != 0) {
        return -1;
    }
    bytes[0] = (total - kLengthField) >> 8;
    bytes[1] = total - kLengthField;
    __builtin_memcpy(bytes + 2, &entry->id, sizeof entry->id);
    bytes[4] = entry->bits & kRecursion ? 0x01 : 0;
    bytes[5] = (entry->bits & kAuthentic ? 0x20 : 0) | (entry->bits & kNoChecking ? 0x10 : 0);
    bytes[7] = 1; // QDCOUNT
    if (opt) {
        bytes[13] = 1; // ARCOUNT
        __u8* record = bytes + ((at + question) & (kScratch - 1));
        record[2] = kTypeOpt;
        record[3] = 0x04; // 1232
        record[4] = 0xd0;
        record[7] = entry->bits & kDnssecOk ? 0x80 : 0;
    }
    __u32 sum = 0;
    // The room behind the message is zero, so that its sum is that of the whole.
    sum = bpf_csum_diff(0, 0, (__be32*)bytes, 304, pseudo_sum(p, IPPROTO_TCP, kTcp + total));
    const __u32 seq = entry->next - total;
    struct tcphdr tcp = tcp_header(p, seq, entry->seq, kPushFlag | kAckFlag, kTcp, 0);
    tcp.window = bpf_htons(kUnknownWindow);
    tcp.check = ~fold(bpf_csum_diff(0, 0, (__be32*)&tcp, sizeof tcp, fold(sum)));
    barrier_var(total); // or else the verifier does not see that its bounds were checked
    if (total == 0 || total > kLongestQuery + kLengthField ||
        bpf_skb_change_tail(skb, p->l4 + kTcp + total, 0) != 0 ||
        bpf_skb_store_bytes(skb, p->l4, &tcp, kTcp, 0) != 0 ||
        bpf_skb_store_bytes(skb, p->l4 + kTcp, bytes, total, 0) != 0) {
        return -1;
    }
    swap_ethernet(skb);
    return write_ip(skb, p, IPPROTO_TCP, kTcp + total, 0);
}

/// For the kernel's TCP. Where the reply has no question, the client sends the query again.
static __always_inline int bring_back(struct __sk_buff* skb, const struct Packet* p,
                                      struct StatelessEntry* entry, __u16 questions) {
    expect_one_less(entry);
    return receive_again(skb, p, entry, questions) == 0 ? bpf_redirect(skb->ifindex, BPF_F_INGRESS)
                                                        : TC_ACT_STOLEN;
}

/// A reply over UDP to a client that asked over UDP.
static __always_inline int take_plain_reply(struct __sk_buff* skb, const struct Packet* p) {
    if (settings.truncate && p->length - kUdp > settings.truncate && is_local(p) &&
        truncate(skb, p, 1) == 0) {
        COUNT(truncated);
    }
    return TC_ACT_UNSPEC;
}

/// One without an entry: late, or not of a connection at all.
static __always_inline int take_other_reply(struct __sk_buff* skb, const struct Packet* p) {
    __u16 id = 0;
    const __u16* given_up = state.some_gone ? bpf_map_lookup_elem(&gone, &p->flow) : 0;
    if (given_up && bpf_skb_load_bytes(skb, p->l4 + kUdp, &id, sizeof id) == 0 && id == *given_up) {
        bpf_map_delete_elem(&gone, &p->flow); // a UDP client may use port and id later
        COUNT(late);
        return TC_ACT_STOLEN;
    }
    return take_plain_reply(skb, p);
}

/// Why the reply does not leave as one segment; -1 where it does.
static __always_inline int reason_of_reply(struct __sk_buff* skb, const struct Packet* p,
                                           const struct StatelessEntry* entry, const __u8* flags,
                                           __u16 additional, struct OptRecord* opt) {
    const int had_opt = entry->bits & kHadOpt;
    const __u8 rcode = flags[1] & 0x0f;
    const __u32 room = class_mss(p, entry->bits & kMssMask) - kLengthField;
    if (flags[0] & 0x02) {
        return kTruncated;
    }
    if (!had_opt && additional == 0 && (rcode == kFormErr || rcode == kNotImp)) {
        return kOpt; // a server that does not know EDNS: over TCP the query comes without ours
    }
    if (p->check == 0 || (!had_opt && additional != 0 && !ends_with_opt(skb, p, opt))) {
        return kOpt;
    }
    return p->length - kUdp - (!had_opt && additional ? kOptRecord : 0) > room ? kLong : -1;
}

/// The reply that `entry` waits for.
static __always_inline int take_reply(struct __sk_buff* skb, const struct Packet* p,
                                      struct StatelessEntry* entry) {
    struct {
        __u16 id;
        __u8 flags[2];
        __u16 counts[4];
    } header;
    struct OptRecord opt = {};
    if (bpf_skb_load_bytes(skb, p->l4 + kUdp, &header, sizeof header) != 0 ||
        header.id != entry->id || !(header.flags[0] & 0x80)) {
        return take_plain_reply(skb, p);
    }
    if (entry->bits & kPromoted) {
        return drop_reply(p, entry);
    }
    const int strip = !(entry->bits & kHadOpt) && header.counts[3] != 0;
    const int reason = reason_of_reply(skb, p, entry, header.flags, header.counts[3], &opt);
    if (reason >= 0) {
        if (entry->bits & kAnswered) {
            return drop_reply(p, entry);
        }
        promote_reply(entry, reason);
    }
    if (entry->bits & kPromote) {
        return bring_back(skb, p, entry, header.counts[0]);
    }
    const __u32 seq = entry->seq;
    const __u32 next = end_of_client(entry);
    one_reply_less(p, entry);
    if (to_segment(skb, p, seq, next, strip ? &opt : 0, header.counts[3]) != 0) {
        COUNT(malformed);
        return TC_ACT_STOLEN;
    }
    COUNT(replies);
    return TC_ACT_UNSPEC;
}

// Replies over UDP that the host has cut into IP fragments: the first has the question, so it can
// be truncated or bring the query back; then the others are dropped.

/// A datagram whose first fragment was changed.
struct CutDatagram {
    __u32 client[4];
    __u32 server[4];
    __u32 id;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct CutDatagram);
    __type(value, __u8);
} cut SEC(".maps");

static __always_inline int take_fragment(struct __sk_buff* skb) {
    const __u8 yes = 1;
    struct Packet p = {.towards_client = 1};
    struct Fragment fragment;
    struct CutDatagram whole = {};
    struct udphdr udp;
    __u16 id = 0;
    if (read_ip(skb, &p, IPPROTO_UDP, &fragment) != 0) {
        return TC_ACT_UNSPEC;
    }
    __builtin_memcpy(whole.client, p.flow.client, sizeof whole.client);
    __builtin_memcpy(whole.server, p.flow.server, sizeof whole.server);
    whole.id = fragment.id;
    if (fragment.offset != 0) {
        return bpf_map_lookup_elem(&cut, &whole) ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
    }
    bpf_map_delete_elem(&cut, &whole); // of one before that had the same identification
    const __u32 at = p.l4 + (p.v6 ? kFragmentHeader : 0);
    if (bpf_skb_load_bytes(skb, at, &udp, sizeof udp) != 0 || udp.source != settings.port ||
        bpf_skb_load_bytes(skb, at + kUdp, &id, sizeof id) != 0) {
        return TC_ACT_UNSPEC;
    }
    p.flow.client_port = udp.dest;
    p.flow.server_port = udp.source;
    struct StatelessEntry* entry = bpf_map_lookup_elem(&flows, &p.flow);
    const int for_tcp = entry && entry->id == id;
    if (for_tcp && (entry->bits & (kPromoted | kAnswered))) {
        bpf_map_update_elem(&cut, &whole, &yes, BPF_ANY);
        return drop_reply(&p, entry);
    }
    if (!for_tcp &&
        (!settings.truncate || bpf_ntohs(udp.len) - kUdp <= settings.truncate || !is_local(&p))) {
        return TC_ACT_UNSPEC;
    }
    // It becomes a packet of its own, whose length fields are wrong still.
    if (p.v6 && bpf_skb_adjust_room(skb, -kFragmentHeader, BPF_ADJ_ROOM_NET, 0) != 0) {
        return TC_ACT_STOLEN;
    }
    bpf_map_update_elem(&cut, &whole, &yes, BPF_ANY);
    if (for_tcp) {
        promote_reply(entry, kLong);
        return bring_back(skb, &p, entry, bpf_htons(1));
    }
    if (truncate(skb, &p, 0) != 0) {
        COUNT(malformed);
        return TC_ACT_STOLEN;
    }
    COUNT(truncated);
    return TC_ACT_UNSPEC;
}
