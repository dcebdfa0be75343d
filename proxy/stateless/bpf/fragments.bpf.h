#pragma once
// Replies over UDP that the host has cut into IP fragments: the first has the question, so it can
// be truncated or bring the query back; then the others are dropped.

#include "proxy/stateless/bpf/packet.bpf.h"
#include "proxy/stateless/bpf/promote.bpf.h"
#include "proxy/stateless/bpf/reply.bpf.h"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/bpf/truncate.bpf.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

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
