#pragma once
// A packet as the programs see it: its headers, and how they are written anew.
//
// Checksums. A packet from a host on the same machine may come without its checksum
// (CHECKSUM_PARTIAL: the field has the sum of the pseudo header only, and whoever puts the packet
// on a wire would complete it). Locally nobody looks at it then. A packet that is sent back where
// it came from still is of that kind, so its field has to be of that kind, too. What goes out
// otherwise has whole checksums: the loader turns off the interface's own computation, so that a
// reply of the server comes with one that can be adjusted.

#include "proxy/stateless/bpf/shared.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

enum {
    kEthernet = sizeof(struct ethhdr),
    kV4Headers = kEthernet + sizeof(struct iphdr),
    kV6Headers = kEthernet + sizeof(struct ipv6hdr),
    kTcp = sizeof(struct tcphdr),
    kUdp = sizeof(struct udphdr),
    kLengthField = 2,
    /// What the header of a UDP datagram is shorter than that of TCP and the length field.
    kLonger = kTcp + kLengthField - kUdp,
    kPlainIpv4 = 0x45,
    kFragmentBits = 0x3fff,
    kOffsetBits = 0x1fff,  ///< IPv4
    kOffsetBits6 = 0xfff8, ///< IPv6
    kFragmentHeader = 8,   ///< IPv6
    kNextIsFragment = 44,  ///< IPv6
    kHopLimit = 64,
    kMappedPrefix = 0xffff,
    kRightSum = 0xffff, ///< of all that a checksum is of, and of itself
};

enum TcpFlags {
    kFinFlag = 0x01,
    kSynFlag = 0x02,
    kRstFlag = 0x04,
    kPushFlag = 0x08,
    kAckFlag = 0x10,
    kUrgentFlag = 0x20
};

struct Packet {
    struct StatelessFlow flow;
    __u32 seq;    ///< TCP; host order
    __u32 ack;    ///< TCP; host order
    __u16 l4;     ///< offset of the transport header
    __u16 length; ///< of the transport header and what is behind it
    __u16 window; ///< TCP; host order, not scaled: the front offers no scaling
    __u16 check;  ///< of the transport header, as it stands there
    __u8 v6;
    __u8 flags;          ///< TCP
    __u8 header;         ///< TCP: its length with options
    __u8 towards_client; ///< the packet leaves the host
};

struct FragmentHeader { ///< IPv6
    __u8 next;
    __u8 unused;
    __u16 offset;
    __u32 id;
};

static __always_inline void* data_of(const struct __sk_buff* skb) { return (void*)(long)skb->data; }

static __always_inline void* end_of(const struct __sk_buff* skb) {
    return (void*)(long)skb->data_end;
}

static __always_inline __u32 fold(__u32 sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}

/// The sum of a pseudo header, not complemented.
static __always_inline __u32 pseudo_sum(const struct Packet* p, __u8 protocol, __u16 length) {
    __u64 sum = bpf_htons(protocol) + bpf_htons(length);
    if (p->v6) {
        for (int i = 0; i < 4; ++i) {
            sum += (__u64)p->flow.client[i] + p->flow.server[i];
        }
    } else {
        sum += (__u64)p->flow.client[3] + p->flow.server[3];
    }
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffffffff) + (sum >> 32);
    return fold((__u32)sum);
}

/// Makes the first `size` bytes readable in place.
static __always_inline int reach(struct __sk_buff* skb, __u32 size) {
    return data_of(skb) + size <= end_of(skb) ? 0 : bpf_skb_pull_data(skb, size);
}

struct Fragment {
    __u32 id;
    __u16 offset; ///< 0 for the first
};

/// The addresses and the place of the transport header; -1 for what is not `protocol` over IP
/// without options, extension headers or, where `fragment` is null, fragments. Else it must be one,
/// and the place is that of IPv6's fragment header.
static __always_inline int read_ip(struct __sk_buff* skb, struct Packet* p, __u8 protocol,
                                   struct Fragment* fragment) {
    const struct ethhdr* frame = data_of(skb);
    if ((void*)(frame + 1) > end_of(skb)) {
        return -1;
    }
    __u32* source = p->towards_client ? p->flow.server : p->flow.client;
    __u32* destination = p->towards_client ? p->flow.client : p->flow.server;
    if (frame->h_proto == bpf_htons(ETH_P_IP)) {
        const struct iphdr* ip = (const void*)(frame + 1);
        if ((void*)(ip + 1) > end_of(skb) || *(const __u8*)ip != kPlainIpv4 ||
            ip->protocol != protocol ||
            ((ip->frag_off & bpf_htons(kFragmentBits)) != 0) != (fragment != 0)) {
            return -1;
        }
        if (!p->towards_client &&
            fold(bpf_csum_diff(0, 0, (__be32*)ip, sizeof *ip, 0)) != kRightSum) {
            return -1; // for the kernel, which drops it
        }
        source[2] = destination[2] = bpf_htonl(kMappedPrefix);
        source[3] = ip->saddr;
        destination[3] = ip->daddr;
        p->l4 = kV4Headers;
        p->length = bpf_ntohs(ip->tot_len) - sizeof *ip;
        if (fragment) {
            fragment->id = ip->id;
            fragment->offset = ip->frag_off & bpf_htons(kOffsetBits);
        }
        return 0;
    }
    const struct ipv6hdr* ip = (const void*)(frame + 1);
    if (frame->h_proto != bpf_htons(ETH_P_IPV6) || (void*)(ip + 1) > end_of(skb) ||
        ip->nexthdr != (fragment ? kNextIsFragment : protocol)) {
        return -1;
    }
    __builtin_memcpy(source, &ip->saddr, sizeof ip->saddr);
    __builtin_memcpy(destination, &ip->daddr, sizeof ip->daddr);
    p->l4 = kV6Headers;
    p->length = bpf_ntohs(ip->payload_len);
    p->v6 = 1;
    if (fragment) {
        struct FragmentHeader header;
        if (bpf_skb_load_bytes(skb, kV6Headers, &header, sizeof header) != 0 ||
            header.next != protocol) {
            return -1;
        }
        p->length -= kFragmentHeader;
        fragment->id = header.id;
        fragment->offset = header.offset & bpf_htons(kOffsetBits6);
    }
    return 0;
}

/// The transport header in place; null where the packet is shorter.
static __always_inline void* transport(struct __sk_buff* skb, const struct Packet* p, __u32 size) {
    void* at = data_of(skb) + (p->v6 ? kV6Headers : kV4Headers);
    return at + size <= end_of(skb) ? at : 0;
}

static __always_inline void swap_ethernet(struct __sk_buff* skb) {
    struct ethhdr* frame = data_of(skb);
    if ((void*)(frame + 1) <= end_of(skb)) {
        __u8 kept[ETH_ALEN];
        __builtin_memcpy(kept, frame->h_dest, ETH_ALEN);
        __builtin_memcpy(frame->h_dest, frame->h_source, ETH_ALEN);
        __builtin_memcpy(frame->h_source, kept, ETH_ALEN);
    }
}

/// A new IP header in place for a transport of `length` bytes, toward the client or the server.
static __always_inline int write_ip(struct __sk_buff* skb, const struct Packet* p, __u8 protocol,
                                    __u16 length, int to_client) {
    const __u32* source = to_client ? p->flow.server : p->flow.client;
    const __u32* destination = to_client ? p->flow.client : p->flow.server;
    if (p->v6) {
        struct ipv6hdr* ip = data_of(skb) + kEthernet;
        if ((void*)(ip + 1) > end_of(skb)) {
            return -1;
        }
        *(__u32*)ip = bpf_htonl(0x60000000);
        ip->payload_len = bpf_htons(length);
        ip->nexthdr = protocol;
        ip->hop_limit = kHopLimit;
        __builtin_memcpy(&ip->saddr, source, sizeof ip->saddr);
        __builtin_memcpy(&ip->daddr, destination, sizeof ip->daddr);
        return 0;
    }
    struct iphdr* ip = data_of(skb) + kEthernet;
    if ((void*)(ip + 1) > end_of(skb)) {
        return -1;
    }
    *(__u8*)ip = kPlainIpv4;
    ip->tos = 0;
    ip->tot_len = bpf_htons(sizeof *ip + length);
    ip->id = bpf_get_prandom_u32();
    ip->frag_off = 0;
    ip->ttl = kHopLimit;
    ip->protocol = protocol;
    ip->check = 0;
    ip->saddr = source[3];
    ip->daddr = destination[3];
    ip->check = ~fold(bpf_csum_diff(0, 0, (__be32*)ip, sizeof *ip, 0));
    return 0;
}

/// A TCP header without its checksum.
static __always_inline struct tcphdr tcp_header(const struct Packet* p, __u32 seq, __u32 ack,
                                                __u8 flags, __u8 size, int to_client) {
    struct tcphdr tcp = {};
    tcp.source = to_client ? p->flow.server_port : p->flow.client_port;
    tcp.dest = to_client ? p->flow.client_port : p->flow.server_port;
    tcp.seq = bpf_htonl(seq);
    tcp.ack_seq = bpf_htonl(ack);
    ((__u8*)&tcp)[12] = size << 2;
    ((__u8*)&tcp)[13] = flags;
    tcp.window = 0xffff;
    return tcp;
}

/// Whether the checksum of a TCP packet is left to others: its field has the pseudo header's sum.
/// One in 65,536 whole checksums is the same, but only whole ones are changed by the kernel's
/// function.
static __always_inline int is_left_to_others(struct __sk_buff* skb, const struct Packet* p) {
    const __u32 at = p->l4 + offsetof(struct tcphdr, check);
    __u16 check = 0;
    if (p->check != pseudo_sum(p, IPPROTO_TCP, p->length)) {
        return 0;
    }
    if (bpf_l4_csum_replace(skb, at, 0, 1, sizeof check) != 0 ||
        bpf_skb_load_bytes(skb, at, &check, sizeof check) != 0 || check == p->check) {
        return 1;
    }
    bpf_l4_csum_replace(skb, at, 1, 0, sizeof check);
    return 0;
}

/// Turns a packet of the client into a segment without data back to it.
static __always_inline int send_back(struct __sk_buff* skb, const struct Packet* p, __u32 seq,
                                     __u32 ack, __u8 flags, __u16 mss) {
    struct {
        struct tcphdr tcp;
        __u32 option;
    } segment = {};

    const int partial = is_left_to_others(skb, p);
    const __u32 size = mss ? sizeof segment : kTcp;
    if (bpf_skb_change_tail(skb, p->l4 + size, 0) != 0 || reach(skb, p->l4 + size) != 0) {
        return -1;
    }
    segment.tcp = tcp_header(p, seq, ack, flags, size, 1);
    if (flags & kFinFlag) { // without data: by this a front knows the answer of another
        segment.tcp.window = 0;
    }
    segment.option = mss ? bpf_htonl(0x02040000 | mss) : 0;
    __u32 sum = pseudo_sum(p, IPPROTO_TCP, size);
    if (!partial) {
        sum = ~fold(bpf_csum_diff(0, 0, (__be32*)&segment, sizeof segment, sum));
    }
    segment.tcp.check = sum;
    swap_ethernet(skb);
    if (write_ip(skb, p, IPPROTO_TCP, size, 1) != 0) {
        return -1;
    }
    void* at = transport(skb, p, kTcp);
    if (!at) {
        return -1;
    }
    __builtin_memcpy(at, &segment.tcp, kTcp);
    if (mss) {
        at = transport(skb, p, sizeof segment);
        if (!at) {
            return -1;
        }
        *(__u32*)(at + kTcp) = segment.option;
    }
    return 0;
}
