// The cheapest DNS server there is: turns each query into an answer where it arrives.
//
// A query is a UDP packet to port 53 with QR=0: IPv4 without options and fragments, IPv6 without
// extension headers. Addresses and ports change places, the flags become QR and AA with rcode 0,
// the question stays. The answer leaves by the interface that the query came by. `sink_xdp` does it
// before the kernel has made a socket buffer, for rates of more than a million a second. `sink_tc`
// comes after the taps, so that tcpdump sees the query, stamped by the kernel as for any server.
//
// Why a redirect to the own interface and not XDP_TX: veth wakes its peer for XDP_TX only where the
// peer has an XDP program too, which would make the kernel's receive path dearer for those clients
// that have none.
//
// Checksums: a sender on this machine leaves the UDP checksum to the "hardware" and the field holds
// only a part of it. So it cannot be updated incrementally: IPv4 answers have none (0), which
// spares every client alike the check as a network card would; IPv6 must have one, and it is
// computed whole.
#include "bench/evidence.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

enum {
    kDnsPort = 53,
    kDnsHeader = 12,
    kMostWords = 750, // 16-bit words of an IPv6 answer's UDP part: a frame of 1500 bytes
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, kCounters);
    __type(key, __u32);
    __type(value, __u64);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct SinkSeen);
} seen SEC(".maps");

struct dns_header {
    __be16 id;
    __be16 flags;
    __be16 counts[4];
};

static __always_inline void mark(__u64* bits, __u32 index) {
    const __u64 bit = 1ULL << (index & 63U);
    __u64* word = &bits[index >> 6U];
    if (!(*word & bit)) {
        __sync_fetch_and_or(word, bit);
    }
}

static __always_inline void mark_seen(__u32 source, __u16 port) {
    const __u32 first = 0;
    struct SinkSeen* all = bpf_map_lookup_elem(&seen, &first);
    if (all) {
        mark(all->sources, source & (kSourceBits - 1U));
        mark(all->ports, port);
    }
}

// Swaps the ports and makes the DNS header an answer's; -1 where it is no query.
static __always_inline int answer_udp(struct udphdr* udp, void* end) {
    struct dns_header* dns = (void*)(udp + 1);
    if ((void*)dns + kDnsHeader > end || udp->dest != bpf_htons(kDnsPort) ||
        (dns->flags & bpf_htons(0x8000))) {
        return -1;
    }
    dns->flags = (dns->flags & bpf_htons(0x7910)) | bpf_htons(0x8400); // opcode, RD, CD stay
    udp->dest = udp->source;
    udp->source = bpf_htons(kDnsPort);
    udp->check = 0;
    return 0;
}

static __always_inline int answer4(struct iphdr* ip, void* end) {
    struct udphdr* udp = (void*)(ip + 1);
    if ((void*)(udp + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
        (ip->frag_off & bpf_htons(0x3fff)) || answer_udp(udp, end) != 0) {
        return -1;
    }
    mark_seen(bpf_ntohl(ip->saddr), bpf_ntohs(udp->dest));
    const __be32 client = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = client; // the sum of the header is the same
    return 0;
}

static __always_inline __u32 sum_of_addresses(const struct ipv6hdr* ip) {
    __u32 sum = 0;
    for (int i = 0; i < 8; ++i) {
        sum += ip->saddr.s6_addr16[i];
        sum += ip->daddr.s6_addr16[i];
    }
    return sum;
}

static __always_inline void write_checksum(const struct ipv6hdr* ip, struct udphdr* udp,
                                           void* end) {
    __u32 sum = sum_of_addresses(ip) + udp->len + bpf_htons(IPPROTO_UDP);
    const __u16* word = (void*)udp;
    for (int i = 0; i < kMostWords && (void*)(word + 1) <= end; ++i) {
        sum += *word++;
    }
    if ((void*)word + 1 <= end) {
        sum += *(const __u8*)word; // the odd last byte, first of its word
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    udp->check = sum == 0xffffU ? 0xffffU : (__u16)~sum;
}

static __always_inline int answer6(struct ipv6hdr* ip, void* end) {
    struct udphdr* udp = (void*)(ip + 1);
    if ((void*)(udp + 1) > end || ip->nexthdr != IPPROTO_UDP || answer_udp(udp, end) != 0) {
        return -1;
    }
    mark_seen(bpf_ntohl(ip->saddr.s6_addr32[3]), bpf_ntohs(udp->dest));
    const struct in6_addr client = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = client;
    write_checksum(ip, udp, end);
    return 0;
}

static __always_inline void swap_macs(struct ethhdr* frame) {
    __u8 mac[ETH_ALEN];
    __builtin_memcpy(mac, frame->h_source, ETH_ALEN);
    __builtin_memcpy(frame->h_source, frame->h_dest, ETH_ALEN);
    __builtin_memcpy(frame->h_dest, mac, ETH_ALEN);
}

// Whether the frame has become an answer; it is unchanged where it is not for us.
static __always_inline int answer(void* data, void* end) {
    struct ethhdr* frame = data;
    void* ip = frame + 1;
    __u32 which = kPassed;
    if (ip + sizeof(struct iphdr) <= end && frame->h_proto == bpf_htons(ETH_P_IP)) {
        which = answer4(ip, end) ? kPassed : kQueries4;
    } else if (ip + sizeof(struct ipv6hdr) <= end && frame->h_proto == bpf_htons(ETH_P_IPV6)) {
        which = answer6(ip, end) ? kPassed : kQueries6;
    }
    if (which != kPassed) {
        swap_macs(frame);
    }
    __u64* mine = bpf_map_lookup_elem(&counters, &which);
    if (mine) {
        ++*mine;
    }
    return which != kPassed;
}

SEC("xdp") int sink_xdp(struct xdp_md* context) {
    return answer((void*)(long)context->data, (void*)(long)context->data_end)
               ? (int)bpf_redirect(context->ingress_ifindex, 0)
               : XDP_PASS;
}

SEC("tc") int sink_tc(struct __sk_buff* context) {
    return answer((void*)(long)context->data, (void*)(long)context->data_end)
               ? (int)bpf_redirect(context->ifindex, 0)
               : TC_ACT_OK;
}

char terms[] SEC("license") = "GPL";
