#pragma once
// SYN cookies: the initial sequence number of the front proves the client's handshake, without
// state.
//
//     31             17 16       15 14            0
//    | of the client's | MSS class | of addresses  |
//    | number as well  |           | and ports     |
//
// Both hashes are of a secret key (SipHash-1-3). An acknowledgement of both together with a
// sequence number right behind the SYN's can only be the first segment of a client that has seen
// the SYN/ACK. The lower hash alone tells a later segment of such a connection, which came out of
// order, from one that proves nothing; it is in the lower bits because an acknowledgement of a
// reply changes them.

#include "proxy/stateless/bpf/shared.h"

#include <bpf/bpf_helpers.h>
#include <linux/types.h>

enum Proof {
    kNone,
    kHandshake, ///< of the connection, but not its first byte
    kFirst,     ///< the first byte after the SYN
};

struct SipState {
    __u64 a, b, c, d;
};

static __always_inline __u64 turn(__u64 word, int by) { return (word << by) | (word >> (64 - by)); }

static __always_inline void sip_round(struct SipState* s) {
    s->a += s->b;
    s->b = turn(s->b, 13) ^ s->a;
    s->a = turn(s->a, 32);
    s->c += s->d;
    s->d = turn(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = turn(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = turn(s->b, 17) ^ s->c;
    s->c = turn(s->c, 32);
}

static __always_inline void sip_take(struct SipState* s, __u64 word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

/// The end of the hash; `s` stays as it is.
static __always_inline __u32 sip_end(const struct SipState* s, __u64 last) {
    struct SipState end = *s;
    sip_take(&end, last);
    end.c ^= 0xff;
    sip_round(&end);
    sip_round(&end);
    sip_round(&end);
    return (end.a ^ end.b ^ end.c ^ end.d) & 0x7fff;
}

static __always_inline struct SipState sip_begin(const volatile __u64* key,
                                                 const struct StatelessFlow* flow) {
    struct SipState s = {
        .a = key[0] ^ 0x736f6d6570736575ULL,
        .b = key[1] ^ 0x646f72616e646f6dULL,
        .c = key[0] ^ 0x6c7967656e657261ULL,
        .d = key[1] ^ 0x7465646279746573ULL,
    };
    if (flow->client[0] | flow->client[1]) { // IPv6
        sip_take(&s, (__u64)flow->client[0] << 32 | flow->client[1]);
        sip_take(&s, (__u64)flow->server[0] << 32 | flow->server[1]);
        sip_take(&s, (__u64)flow->client[2] << 32 | flow->server[2]);
    }
    sip_take(&s, (__u64)flow->client[3] << 32 | flow->server[3]);
    return s;
}

static __always_inline __u32 sip_ports(const struct StatelessFlow* flow) {
    return (__u32)flow->client_port << 16 | flow->server_port;
}

/// The MSS class in an acknowledgement of the handshake.
static __always_inline __u32 mss_in(__u32 ack) { return (ack - 1) >> 15 & 3; }

/// The initial sequence number for a client whose own is `irs`.
static __always_inline __u32 cookie(const volatile __u64* key, const struct StatelessFlow* flow,
                                    __u32 irs, __u32 mss) {
    const struct SipState s = sip_begin(key, flow);
    const __u64 ports = (__u64)sip_ports(flow) << 32;
    return sip_end(&s, (ports | irs) ^ (__u64)(mss + 1) << 32) << 17 | mss << 15 |
           sip_end(&s, ports);
}

/// What a segment with these numbers proves by one of the keys.
static __always_inline enum Proof prove(const volatile __u64* key, const struct StatelessFlow* flow,
                                        __u32 seq, __u32 ack) {
    const __u32 expected = cookie(key, flow, seq - 1, mss_in(ack));
    if (expected == ack - 1) {
        return kFirst;
    }
    return (expected & 0x7fff) == ((ack - 1) & 0x7fff) ? kHandshake : kNone;
}
