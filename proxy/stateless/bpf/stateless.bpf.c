// statelessTCP in the kernel: the server answers queries over TCP, and only UDP reaches it.
//
// Problem. A query over TCP costs the server's host a connection: some eight packets, a socket's
// state and four times the processor time of a query over UDP (Huston 2009; Hayes, Rossi and
// Armitage, CAIA TR 101022A). Most such connections carry one query that fits in one segment, and
// so does its answer.
//
// Idea. At the tc hooks of the interface such a connection never reaches the kernel's TCP:
//
//     SYN             -> SYN/ACK whose sequence number is a cookie (cookie.bpf.h)
//     ACK             -> dropped
//     data, a query   -> the same query over UDP to the server (query.bpf.h)
//     answer          -> one segment with FIN (reply.bpf.h); nobody acknowledged the query before,
//     so
//                        whatever is lost the client sends the query again, and everything repeats
//     FIN             -> ACK
//
// The only state is an entry for a query in flight: the two sequence numbers of its reply. All that
// does not fit the rule goes to the kernel's own TCP, in the middle of the connection, by a request
// socket that bpf_sk_assign_tcp_reqsk makes of the cookie: the kernel goes on as if it had shaken
// hands. What only shows in the reply (it is truncated, or longer than a segment) goes the same
// way: the query is built again of the reply's question and received once more.
//
// Why no byte is ever wrong: a connection has either one reply, with a FIN behind it, or none, and
// then the kernel starts at the same sequence number. A second reply to a query that was sent again
// takes the place of the first, and no data of the client's is acknowledged before its reply
// stands.

#include "proxy/stateless/bpf/cookie.bpf.h"
#include "proxy/stateless/bpf/packet.bpf.h"
#include "proxy/stateless/bpf/shared.h"

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/if_packet.h>
#include <linux/pkt_cls.h>

/// Filled in by the loader before it loads the programs.
const volatile struct StatelessSettings settings SEC(".rodata.settings");

/// Mapped into the loader.
struct StatelessState state;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __type(key, struct StatelessFlow);
    __type(value, struct StatelessEntry);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct StatelessCounts);
} counts SEC(".maps");

/// The message ids of queries that the loader has given up, so that late replies do not leave as
/// UDP.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct StatelessFlow);
    __type(value, __u16);
} gone SEC(".maps");

/// Segments that wait for one before them and come again and again: one that only seems to be of a
/// connection, whose number fits by chance, would otherwise wait for ever.
struct Waiting {
    __u32 seq;
    __u32 ack;
    __u32 times;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct StatelessFlow);
    __type(value, struct Waiting);
} waiting SEC(".maps");

/// The host's own addresses, kept by the loader: other hosts' packets only pass.
struct LocalAddress {
    __u32 words[4];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 65536);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct LocalAddress);
    __type(value, __u8);
} addresses SEC(".maps");

static __always_inline struct StatelessCounts* counts_here(void) {
    const __u32 zero = 0;
    return bpf_map_lookup_elem(&counts, &zero);
}

/// One more of a member of StatelessCounts.
#define COUNT(which)                                                                               \
    do {                                                                                           \
        struct StatelessCounts* here = counts_here();                                              \
        if (here) {                                                                                \
            ++here->which;                                                                         \
        }                                                                                          \
    } while (0)

static __always_inline void one_more_in_flight(void) {
    __sync_fetch_and_sub(&state.lived, bpf_ktime_get_ns());
    const __u64 most = __sync_fetch_and_add(&state.in_flight, 1) + 1;
    if (most > state.most_in_flight) {
        state.most_in_flight = most;
    }
}

static __always_inline int is_local(const struct Packet* p) {
    return bpf_map_lookup_elem(&addresses, p->flow.server) != 0;
}

static __always_inline __u16 now(void) { return bpf_ktime_get_coarse_ns() >> kStampShift; }

// The parts that use what stands above.
#include "proxy/stateless/bpf/promote.bpf.h"
#include "proxy/stateless/bpf/query.bpf.h"
#include "proxy/stateless/bpf/reply.bpf.h"

static __always_inline int pass(void) {
    COUNT(passed);
    return TC_ACT_UNSPEC;
}

/// A segment back to the client, or nothing where the packet cannot be changed.
static __always_inline int answer(struct __sk_buff* skb, const struct Packet* p, __u32 seq,
                                  __u32 ack, __u8 flags) {
    return send_back(skb, p, seq, ack, flags, 0) == 0 ? bpf_redirect(skb->ifindex, 0) : TC_ACT_SHOT;
}

enum { kSigned = 0x10000, kNoMss = 536 }; // RFC 9293

/// The maximum segment size in `size` bytes of TCP options, and kSigned with TCP-MD5 or TCP-AO. A
/// function of its own, so that the verifier reads it once.
__noinline int read_options(struct __sk_buff* skb, __u32 from, __u32 size) {
    enum { kEnd, kNothing, kMss, kMd5 = 19, kAuthentication = 29 };

    __u8 options[40] = {};
    __u32 at = 0;
    __u32 found = kNoMss;
    if (size > sizeof options || size < 4 || bpf_skb_load_bytes(skb, from, options, size) != 0) {
        return found;
    }
    for (int i = 0; i < 40; ++i) {
        if (at > sizeof options - 4 || options[at] == kEnd) {
            break;
        }
        if (options[at] == kMss) {
            found = (found & kSigned) | (__u32)options[at + 2] << 8 | options[at + 3];
        }
        if (options[at] == kMd5 || options[at] == kAuthentication) {
            found |= kSigned;
        }
        if (options[at] == kNothing) {
            ++at;
        } else {
            at += options[at + 1] < 2 ? 40 : options[at + 1];
        }
    }
    return found;
}

static __always_inline int take_syn(struct __sk_buff* skb, const struct Packet* p, __u32 mss) {
    const __u32 most = p->v6 ? state.mss6 : state.mss4;
    mss = mss < most ? mss : most;
    if (mss < class_mss(p, 0) || !is_local(p)) {
        return pass();
    }
    const __u32 class = class_of(p, mss);
    const __u32 isn = cookie(state.keys[state.current & 1], &p->flow, p->seq, class);
    COUNT(syn);
    if (send_back(skb, p, isn, p->seq + 1, kSynFlag | kAckFlag, most) != 0) {
        return TC_ACT_SHOT;
    }
    COUNT(syn_ack);
    return bpf_redirect(skb->ifindex, 0);
}

/// What a segment proves whose first byte would be `seq`.
static __always_inline enum Proof proof_of(const struct Packet* p, __u32 seq) {
    const __u32 current = state.current & 1;
    const enum Proof proof = prove(state.keys[current], &p->flow, seq, p->ack);
    if (proof == kFirst) {
        return proof;
    }
    const enum Proof before = prove(state.keys[current ^ 1], &p->flow, seq, p->ack);
    return before > proof ? before : proof;
}

/// Whether the segment has come so often that what is before it will not come: a client sends that
/// again after at most one copy of this.
static __always_inline int waits_in_vain(const struct Packet* p) {
    struct Waiting* before = bpf_map_lookup_elem(&waiting, &p->flow);
    if (before && before->seq == p->seq && before->ack == p->ack) {
        return ++before->times > kPatience;
    }
    const struct Waiting first = {.seq = p->seq, .ack = p->ack, .times = 1};
    bpf_map_update_elem(&waiting, &p->flow, &first, BPF_ANY);
    return 0;
}

static __always_inline int answer_unknown_fin(struct __sk_buff* skb, const struct Packet* p) {
    if (!is_local(p)) {
        return pass();
    }
    if (p->flow.client_port == p->flow.server_port) {
        COUNT(reset);
        return answer(skb, p, p->ack, 0, kRstFlag);
    }
    return p->window == 0 ? TC_ACT_SHOT : answer(skb, p, p->ack, p->seq + 1, kFinFlag | kAckFlag);
}

/// A FIN without data. One of a connection that nothing is known of gets a FIN, too: its client may
/// have had none, and to one that had it does no harm. Two fronts could thus answer each other
/// forever: what comes from a service's own port is reset, and such an answer, which has no window,
/// is not answered. In front of its query, or while that is in flight, a FIN may not be
/// acknowledged alone, for that would acknowledge the query.
static __always_inline int take_fin(struct __sk_buff* skb, const struct Packet* p,
                                    enum Proof proof) {
    COUNT(fin);
    struct StatelessEntry* entry = bpf_map_lookup_elem(&flows, &p->flow);
    if (proof == kNone || (proof == kHandshake && !entry && waits_in_vain(p))) {
        return answer_unknown_fin(skb, p);
    }
    if (entry && entry->next == p->seq && entry->seq == p->ack) {
        set_bits(entry, kHalfClosed);
        return TC_ACT_SHOT;
    }
    if (proof == kFirst && !entry) { // the client leaves without a query
        return answer(skb, p, p->ack, p->seq + 1, kFinFlag | kAckFlag);
    }
    COUNT(waiting);
    return TC_ACT_SHOT;
}

/// Data that are not the first of a connection in whose handshake the front took part, or of none
/// at all.
static __always_inline int take_later(struct __sk_buff* skb, const struct Packet* p,
                                      enum Proof proof) {
    struct StatelessEntry* entry = bpf_map_lookup_elem(&flows, &p->flow);
    if (proof == kNone || (proof == kHandshake && !entry && waits_in_vain(p))) {
        if (!is_local(p)) {
            return pass();
        }
        COUNT(refused_cookies);
        COUNT(reset);
        return answer(skb, p, p->ack, 0, kRstFlag);
    }
    if (entry && entry->seq == p->ack && end_of_client(entry) == p->seq &&
        !(entry->bits & kAnswered)) {
        promote_reply(entry, kLater);
    }
    COUNT(waiting);
    return TC_ACT_SHOT;
}

static __always_inline int take_segment(struct __sk_buff* skb, struct Packet* p,
                                        struct bpf_sock* listener) {
    const enum Proof proof = proof_of(p, p->seq);
    if (p->length > p->header) {
        return proof == kFirst ? take_query(skb, p, listener) : take_later(skb, p, proof);
    }
    if (p->flags & kFinFlag) {
        return take_fin(skb, p, proof);
    }
    if (proof == kNone && !is_local(p)) {
        return pass();
    }
    if (proof == kFirst) {
        COUNT(handshake_ack);
    }
    if (proof == kHandshake && proof_of(p, p->seq + 1) == kFirst) {
        return answer(skb, p, p->ack, p->seq + 1, kAckFlag); // a keepalive probe before the query
    }
    return TC_ACT_SHOT;
}

/// Only one with the number that comes next ends a query: others may be anybody's.
static __always_inline int take_rst(const struct Packet* p) {
    struct StatelessEntry* entry = bpf_map_lookup_elem(&flows, &p->flow);
    if (entry && end_of_client(entry) == p->seq) {
        swallow_replies(&p->flow, entry);
    }
    COUNT(rst);
    return is_local(p) ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

enum { kPiece = 256, kPieces = 6 };

/// The sum of a segment of at most kPieces * kPiece bytes. A function of its own, so that the
/// verifier reads it once.
__noinline int sum_segment(struct __sk_buff* skb, __u32 from, __u32 length, __u32 sum) {
    __u8* bytes = scratch_bytes();
    for (__u32 at = 0; bytes && at < kPiece * kPieces && at < length; at += kPiece) {
        __u32 size = length - at;
        size = size < kPiece ? size : kPiece;
        __builtin_memset(bytes, 0, kPiece);
        barrier_var(size);
        if (size == 0 || size > kPiece || bpf_skb_load_bytes(skb, from + at, bytes, size) != 0) {
            return -1;
        }
        sum = fold(bpf_csum_diff(0, 0, (__be32*)bytes, kPiece, sum));
    }
    return sum;
}

/// Whether the segment's checksum holds, or others have looked at it or will not.
static __always_inline int is_right(struct __sk_buff* skb, const struct Packet* p) {
    return p->length > kPiece * kPieces || is_left_to_others(skb, p) ||
           bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0 ||
           sum_segment(skb, p->l4, p->length, pseudo_sum(p, IPPROTO_TCP, p->length)) == kRightSum;
}

/// With the listening socket of the server at hand.
static __always_inline int take_tcp(struct __sk_buff* skb, struct Packet* p,
                                    struct bpf_sock* listener) {
    const __u32 options = read_options(skb, p->l4 + kTcp, p->header - kTcp);
    if ((options & kSigned) || !is_right(skb, p)) { // without a key the kernel drops both
        return pass();
    }
    if ((p->flags & (kSynFlag | kAckFlag | kRstFlag | kFinFlag)) == kSynFlag) {
        return take_syn(skb, p, options);
    }
    if (p->flags & kRstFlag) {
        return take_rst(p);
    }
    if ((p->flags & (kSynFlag | kAckFlag)) != kAckFlag) {
        return pass();
    }
    return take_segment(skb, p, listener);
}

static __always_inline int read_tcp(struct __sk_buff* skb, struct Packet* p) {
    if (reach(skb, kV4Headers + kTcp) != 0 || read_ip(skb, p, IPPROTO_TCP, 0) != 0) {
        return -1;
    }
    const struct tcphdr* tcp = transport(skb, p, kTcp);
    if (!tcp && p->v6 && bpf_skb_pull_data(skb, kV6Headers + kTcp) == 0) {
        tcp = transport(skb, p, kTcp);
    }
    if (!tcp || tcp->dest != settings.port) {
        return -1;
    }
    p->flow.client_port = tcp->source;
    p->flow.server_port = tcp->dest;
    p->seq = bpf_ntohl(tcp->seq);
    p->ack = bpf_ntohl(tcp->ack_seq);
    p->flags = ((const __u8*)tcp)[13];
    p->header = tcp->doff * 4;
    p->check = tcp->check;
    p->window = bpf_ntohs(tcp->window);
    if (p->header < kTcp || p->length < p->header || p->l4 + p->length > skb->len) {
        COUNT(malformed);
        return -1;
    }
    return 0;
}

static __always_inline int take_packet(struct __sk_buff* skb) {
    struct Packet p = {};
    if (skb->pkt_type != PACKET_HOST || read_tcp(skb, &p) != 0) {
        return TC_ACT_UNSPEC;
    }
    struct bpf_sock* sk = find_socket(skb, &p);
    if (!sk) { // no server: the kernel refuses the connection
        return pass();
    }
    const int verdict = sk->state == BPF_TCP_LISTEN ? take_tcp(skb, &p, sk) : pass();
    bpf_sk_release(sk);
    return verdict;
}

SEC("tc") int stateless_in(struct __sk_buff* skb) {
    const __u64 began = settings.timed ? bpf_ktime_get_ns() : 0;
    const int verdict = take_packet(skb);
    struct StatelessCounts* here = settings.timed ? counts_here() : 0;
    if (here) {
        here->in_time += bpf_ktime_get_ns() - began;
    }
    return verdict;
}

/// The copy of a query's segment becomes its acknowledgement.
static __always_inline int finish_early_ack(struct __sk_buff* skb) {
    struct Packet p = {};
    skb->mark = 0;
    if (read_tcp(skb, &p) != 0 ||
        send_back(skb, &p, p.ack, p.seq + p.length - p.header, kAckFlag, 0) != 0) {
        return TC_ACT_SHOT;
    }
    return TC_ACT_UNSPEC;
}

SEC("tc") int stateless_out(struct __sk_buff* skb) {
    const __u64 began = settings.timed ? bpf_ktime_get_ns() : 0;
    struct Packet p = {.towards_client = 1};
    if (settings.early_ack && skb->mark == kEarlyAckMark) {
        return finish_early_ack(skb);
    }
    if (read_udp(skb, &p) != 0) {
        return take_fragment(skb);
    }
    struct StatelessEntry* entry = bpf_map_lookup_elem(&flows, &p.flow);
    const int verdict = entry ? take_reply(skb, &p, entry) : take_other_reply(skb, &p);
    struct StatelessCounts* here = settings.timed ? counts_here() : 0;
    if (here) {
        here->out_time += bpf_ktime_get_ns() - began;
    }
    return verdict;
}

char terms[] SEC("license") = "GPL";
