// Takes the replies of the server under test before the stack sees them: each becomes a record in
// a ring buffer and the packet is dropped. The packets' destinations are the trace's sources, which
// nobody but the querier knows.
//
// Of a plain reply the record has the beginning. Where its question is longer, where whole replies
// are wanted, and of whatever else may be a reply (fragments, IPv4 options, IPv6 extension headers,
// what contradicts itself) or tells of a query that did not arrive, it has the frame. What is not
// plain may be for this host, so the stack gets it as well. Everything else passes.

#include "querier/packet/receive.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

enum { kPlainIpv4 = 0x45, kFragmentBits = 0x3fff, kOffsetBits = 0x1fff, kDnsHeader = 12 };

/// IPv6 extension headers.
enum { kHopByHop = 0, kRouting = 43, kFragment = 44, kDestinationOptions = 60 };

/// "Destination unreachable" of ICMP and ICMPv6; the packet that it is about lies behind its
/// header.
enum { kUnreachable4 = 3, kUnreachable6 = 1, kIcmpHeader = 8 };

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

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct FrameRecord);
} scratch SEC(".maps");

static __always_inline int same_v6(const void* address) {
    const __u64* a = address;
    const volatile __u64* b = (const volatile __u64*)servers.v6;
    return a[0] == b[0] && a[1] == b[1];
}

static __always_inline int same_v4(__u32 address) {
    return address == *(const volatile __u32*)servers.v4;
}

/// Hands over the frame. Returns `verdict`, what becomes of it besides.
static __noinline int keep_frame(struct xdp_md* context, int verdict) {
    const __u32 zero = 0;
    struct FrameRecord* record = bpf_map_lookup_elem(&scratch, &zero);
    __u64 size = bpf_xdp_get_buff_len(context);
    if (record && size <= sizeof record->frame) {
        barrier_var(size); // as below
        if (size >= sizeof(struct ethhdr) &&
            bpf_xdp_load_bytes(context, 0, record->frame, size) == 0) {
            record->head.time = bpf_ktime_get_ns();
            record->head.size = size;
            record->head.passed = verdict == XDP_PASS;
            if (bpf_ringbuf_output(&replies, record, sizeof record->head + size,
                                   BPF_RB_NO_WAKEUP) == 0) {
                return verdict;
            }
        }
    }
    __sync_fetch_and_add(&overflows, 1);
    return verdict;
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
        record->head.kept = kReplyPrefix;
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
    record->head.kept = size;
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

/// `payload`: what the IP header says is below it.
static __always_inline int take(struct xdp_md* context, const struct udphdr* udp, __u16 payload,
                                __u8 family, const void* destination) {
    const void* end = (const void*)(long)context->data_end;
    const __u16 size = bpf_ntohs(udp->len);
    if (size != payload || size < sizeof *udp + kDnsHeader || (const void*)udp + size > end) {
        return keep_frame(context, XDP_PASS);
    }
    if (servers.whole) {
        return keep_frame(context, XDP_DROP);
    }
    struct PacketRecord* record = bpf_ringbuf_reserve(&replies, sizeof *record, 0);
    if (!record) {
        __sync_fetch_and_add(&overflows, 1);
        return XDP_DROP;
    }
    record->head.time = bpf_ktime_get_ns();
    record->head.port = bpf_ntohs(udp->dest);
    record->head.size = size - sizeof *udp;
    record->head.family = family;
    __builtin_memcpy(record->head.address, destination, family == 4 ? 4 : 16);
    if (keep(context, record, udp + 1, size - sizeof *udp) != 0 ||
        (record->head.size > kReplyPrefix && question_is_cut(record))) {
        bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
        return keep_frame(context, XDP_DROP);
    }
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    return XDP_DROP;
}

/// Whether the UDP header at an offset of the frame has a server's source port.
static __always_inline int comes_from(struct xdp_md* context, __u32 offset, __u16 server) {
    __u16 port = 0;
    return bpf_xdp_load_bytes(context, offset, &port, sizeof port) == 0 && port == server;
}

/// Whether it is the server's although it is not plain, or an error about a query.
static __always_inline int is_odd_v4(struct xdp_md* context, const struct iphdr* ip) {
    const __u32 behind = sizeof(struct ethhdr) + ip->ihl * 4;
    __u8 type = 0;
    __u32 about = 0;
    if (servers.port4 == 0) {
        return 0;
    }
    if (ip->protocol == IPPROTO_UDP && same_v4(ip->saddr)) {
        return (ip->frag_off & bpf_htons(kFragmentBits)) != 0 ||
               comes_from(context, behind, servers.port4);
    }
    return ip->protocol == IPPROTO_ICMP && (ip->frag_off & bpf_htons(kOffsetBits)) == 0 &&
           bpf_xdp_load_bytes(context, behind, &type, sizeof type) == 0 && type == kUnreachable4 &&
           bpf_xdp_load_bytes(context, behind + kIcmpHeader + offsetof(struct iphdr, daddr), &about,
                              sizeof about) == 0 &&
           same_v4(about);
}

static __always_inline int is_odd_v6(struct xdp_md* context, const struct ipv6hdr* ip) {
    const __u32 behind = sizeof(struct ethhdr) + sizeof *ip;
    const __u8 next = ip->nexthdr;
    __u8 type = 0;
    __u64 about[2] = {};
    if (servers.port6 == 0) {
        return 0;
    }
    if (next != IPPROTO_ICMPV6) {
        return same_v6(&ip->saddr) &&
               (next == kHopByHop || next == kRouting || next == kFragment ||
                next == kDestinationOptions ||
                (next == IPPROTO_UDP && comes_from(context, behind, servers.port6)));
    }
    return bpf_xdp_load_bytes(context, behind, &type, sizeof type) == 0 && type == kUnreachable6 &&
           bpf_xdp_load_bytes(context, behind + kIcmpHeader + offsetof(struct ipv6hdr, daddr),
                              about, sizeof about) == 0 &&
           same_v6(about);
}

static __always_inline int take_v4(struct xdp_md* context, const struct iphdr* ip) {
    const void* end = (const void*)(long)context->data_end;
    const struct udphdr* udp = (const void*)(ip + 1);
    if ((const void*)udp > end) {
        return XDP_PASS;
    }
    if ((const void*)(udp + 1) <= end && *(const __u8*)ip == kPlainIpv4 &&
        ip->protocol == IPPROTO_UDP && (ip->frag_off & bpf_htons(kFragmentBits)) == 0 &&
        udp->source == servers.port4 && same_v4(ip->saddr)) {
        return take(context, udp, bpf_ntohs(ip->tot_len) - sizeof *ip, 4, &ip->daddr);
    }
    return is_odd_v4(context, ip) ? keep_frame(context, XDP_PASS) : XDP_PASS;
}

static __always_inline int take_v6(struct xdp_md* context, const struct ipv6hdr* ip) {
    const void* end = (const void*)(long)context->data_end;
    const struct udphdr* udp = (const void*)(ip + 1);
    if ((const void*)udp > end) {
        return XDP_PASS;
    }
    if ((const void*)(udp + 1) <= end && ip->nexthdr == IPPROTO_UDP &&
        udp->source == servers.port6 && same_v6(&ip->saddr)) {
        return take(context, udp, bpf_ntohs(ip->payload_len), 6, &ip->daddr);
    }
    return is_odd_v6(context, ip) ? keep_frame(context, XDP_PASS) : XDP_PASS;
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
