// Takes the replies of the server under test before the stack sees them: each becomes a record in
// a ring buffer and the packet is dropped. The packets' destinations are the trace's sources, which
// nobody but the querier knows.
//
// Everything else passes: other hosts, other ports, fragments, IPv4 options, IPv6 extension headers
// and what contradicts itself. The querier sees those of the server through a packet socket.

#include "querier/packet/receive.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

enum { kPlainIpv4 = 0x45, kFragmentBits = 0x3fff, kDnsHeader = 12 };

/// Of a name of 64 bytes there are at most 32.
enum { kMostLabels = 33, kLongestLabel = 63, kTypeAndClass = 4 };

/// Filled in by the querier before it loads the program.
const volatile struct PacketServers servers;

/// Replies dropped because the ring was full. Mapped into the querier.
__u64 overflows;

/// The querier sets the size.
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} replies SEC(".maps");

static __always_inline int same_v6(const void* address) {
    const __u64* a = address;
    const volatile __u64* b = (const volatile __u64*)servers.v6;
    return a[0] == b[0] && a[1] == b[1];
}

/// The first bytes of a message of `size` bytes. Most replies are longer than the prefix, so their
/// copy is of a fixed size; it is by words, which the packet's alignment does not promise but
/// kernels that run XDP allow.
static __always_inline int keep(struct xdp_md* context, struct PacketRecord* record,
                                const void* dns, __u32 size) {
    const void* end = (const void*)(long)context->data_end;
    if (dns + kReplyPrefix <= end && size >= kReplyPrefix) {
        const __u64* from = dns;
        __u64* to = (__u64*)record->dns;
#pragma unroll
        for (int i = 0; i < kReplyPrefix / 8; ++i) {
            to[i] = from[i];
        }
        record->kept = kReplyPrefix;
        return 0;
    }
    // Without the barrier both comparisons become one that hides the bounds from the verifier.
    if (size < kDnsHeader) {
        return -1;
    }
    barrier_var(size);
    if (size > kReplyPrefix) {
        return -1;
    }
    record->kept = size;
    return bpf_xdp_load_bytes(context, dns - (const void*)(long)context->data, record->dns, size);
}

/// Whether the first question goes beyond the prefix; the message does.
static __always_inline int question_is_cut(const struct PacketRecord* record) {
    __u32 at = kDnsHeader;
    for (int i = 0; i < kMostLabels; ++i) {
        if (at >= kReplyPrefix - kTypeAndClass) {
            return 1;
        }
        const __u8 length = record->dns[at];
        if (length == 0 || length > kLongestLabel) {
            return 0;
        }
        at += length + 1;
    }
    return 1;
}

/// Hands over more of the message, in a record that takes the place of `record`.
static __always_inline int keep_more(struct xdp_md* context, struct PacketRecord* record,
                                     const void* dns, __u32 size) {
    struct LongRecord* whole = bpf_ringbuf_reserve(&replies, sizeof *whole, 0);
    if (!whole) {
        __sync_fetch_and_add(&overflows, 1);
        bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
        return XDP_DROP;
    }
    __builtin_memcpy(&whole->begin, record, sizeof *record);
    bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
    __u32 kept = size < kLongPrefix ? size : kLongPrefix;
    barrier_var(kept);
    if (kept < kReplyPrefix || kept > kLongPrefix ||
        bpf_xdp_load_bytes(context, dns - (const void*)(long)context->data, whole->begin.dns,
                           kept) != 0) {
        bpf_ringbuf_discard(whole, BPF_RB_NO_WAKEUP);
        return XDP_PASS;
    }
    whole->begin.kept = kept;
    bpf_ringbuf_submit(whole, BPF_RB_NO_WAKEUP);
    return XDP_DROP;
}

/// `payload`: what the IP header says is below it.
static __always_inline int take(struct xdp_md* context, const struct udphdr* udp, __u16 payload,
                                __u8 family, const void* destination) {
    const void* end = (const void*)(long)context->data_end;
    const __u16 size = bpf_ntohs(udp->len);
    if (size != payload || size < sizeof *udp + kDnsHeader || (const void*)udp + size > end) {
        return XDP_PASS;
    }
    struct PacketRecord* record = bpf_ringbuf_reserve(&replies, sizeof *record, 0);
    if (!record) {
        __sync_fetch_and_add(&overflows, 1);
        return XDP_DROP;
    }
    record->time = bpf_ktime_get_ns();
    record->port = bpf_ntohs(udp->dest);
    record->size = size - sizeof *udp;
    record->family = family;
    __builtin_memcpy(record->address, destination, family == 4 ? 4 : 16);
    if (keep(context, record, udp + 1, size - sizeof *udp) != 0) {
        bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
        return XDP_PASS;
    }
    if (record->size > kReplyPrefix && question_is_cut(record)) {
        return keep_more(context, record, udp + 1, record->size);
    }
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    return XDP_DROP;
}

static __always_inline int take_v4(struct xdp_md* context, const struct iphdr* ip) {
    const struct udphdr* udp = (const void*)(ip + 1);
    if ((const void*)(udp + 1) > (const void*)(long)context->data_end) {
        return XDP_PASS;
    }
    if (*(const __u8*)ip != kPlainIpv4 || ip->protocol != IPPROTO_UDP ||
        (ip->frag_off & bpf_htons(kFragmentBits)) != 0 || udp->source != servers.port4 ||
        ip->saddr != *(const volatile __u32*)servers.v4) {
        return XDP_PASS;
    }
    return take(context, udp, bpf_ntohs(ip->tot_len) - sizeof *ip, 4, &ip->daddr);
}

static __always_inline int take_v6(struct xdp_md* context, const struct ipv6hdr* ip) {
    const struct udphdr* udp = (const void*)(ip + 1);
    if ((const void*)(udp + 1) > (const void*)(long)context->data_end) {
        return XDP_PASS;
    }
    if (ip->nexthdr != IPPROTO_UDP || udp->source != servers.port6 || !same_v6(&ip->saddr)) {
        return XDP_PASS;
    }
    return take(context, udp, bpf_ntohs(ip->payload_len), 6, &ip->daddr);
}

SEC("xdp") int reprise_receive(struct xdp_md* context) {
    const struct ethhdr* frame = (const void*)(long)context->data;
    if ((const void*)(frame + 1) > (const void*)(long)context->data_end) {
        return XDP_PASS;
    }
    if (frame->h_proto == bpf_htons(ETH_P_IP)) {
        return take_v4(context, (const void*)(frame + 1));
    }
    if (frame->h_proto == bpf_htons(ETH_P_IPV6)) {
        return take_v6(context, (const void*)(frame + 1));
    }
    return XDP_PASS;
}

char terms[] SEC("license") = "GPL";
