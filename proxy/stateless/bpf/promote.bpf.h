#pragma once

// How an entry changes, and connections that the kernel's TCP gets, in the middle.
//
// Several processors may have packets of one connection at the same moment, so that an entry's
// bits, with the stamp beside them as one word, change by atomic operations only. If a
// compare-and-swap fails, another processor was first, and it is tried again, kTries times in all.
// After that the packet is dropped and sent again, or the entry ends by its timeout.

enum { kTries = 8 };

struct Marks {
    __u16 bits;
    __u16 stamp;
};

typedef __u32 __attribute__((may_alias)) MarksWord;

_Static_assert(offsetof(struct StatelessEntry, bits) % sizeof(MarksWord) == 0 &&
                   offsetof(struct StatelessEntry, stamp) ==
                       offsetof(struct StatelessEntry, bits) + sizeof(__u16),
               "bits and stamp are one word");

static __always_inline MarksWord word_of(struct Marks marks) {
    MarksWord word;
    __builtin_memcpy(&word, &marks, sizeof word);
    return word;
}

static __always_inline struct Marks marks_of(const struct StatelessEntry* entry) {
    const MarksWord word = *(const volatile MarksWord*)&entry->bits;
    struct Marks marks;
    __builtin_memcpy(&marks, &word, sizeof marks);
    return marks;
}

/// Changes the marks from `before` to `after`; false if they were no longer `before`.
static __always_inline int replace_marks(struct StatelessEntry* entry, struct Marks before,
                                         struct Marks after) {
    const MarksWord from = word_of(before);
    return __sync_val_compare_and_swap((MarksWord*)&entry->bits, from, word_of(after)) == from;
}

static __always_inline void set_bits(struct StatelessEntry* entry, __u16 bits) {
    __sync_fetch_and_or((MarksWord*)&entry->bits, word_of((struct Marks){.bits = bits}));
}

/// Whether it is still the entry of the query: the map may have given it to another one meanwhile.
static __always_inline int is_of(const volatile struct StatelessEntry* entry, __u32 seq, __u16 id) {
    return entry->seq == seq && entry->id == id;
}

/// What acknowledges all that the client has sent.
static __always_inline __u32 end_of_client(const struct StatelessEntry* entry) {
    return entry->next + (entry->bits & kHalfClosed ? 1 : 0);
}

/// The kernel's (net/tcp.h); 20 bytes.
struct bpf_tcp_req_attrs {
    __u32 rcv_tsval;
    __u32 rcv_tsecr;
    __u16 mss;
    __u8 rcv_wscale;
    __u8 snd_wscale;
    __u8 ecn_ok;
    __u8 wscale_ok;
    __u8 sack_ok;
    __u8 tstamp_ok;
    __u8 usec_ts_ok;
    __u8 reserved[3];
};

/// The kernel's; only its kind is looked at when the function below is found.
struct sock {
    int unused;
};

/// Since Linux 6.9. The loader sets settings.promote only where the kernel has it.
extern int bpf_sk_assign_tcp_reqsk(struct __sk_buff* skb, struct sock* sk,
                                   struct bpf_tcp_req_attrs* attrs, int attrs__sz) __ksym __weak;

/// Maximum segment sizes that a cookie can say. The smallest are those below which the kernel takes
/// no connection; clients with less are left to it from the start.
static const __u16 kMss4[4] = {536, 1220, 1400, 1460};
static const __u16 kMss6[4] = {1220, 1340, 1400, 1440};

static __always_inline __u32 class_mss(const struct Packet* p, __u32 class) {
    return p->v6 ? kMss6[class & 3] : kMss4[class & 3];
}

/// The largest class that is not above `mss`.
static __always_inline __u32 class_of(const struct Packet* p, __u32 mss) {
    return mss >= class_mss(p, 3) ? 3 : mss >= class_mss(p, 2) ? 2 : mss >= class_mss(p, 1) ? 1 : 0;
}

/// The kernel's socket of the connection, or else the listening one. To be released.
static __always_inline struct bpf_sock* find_socket(struct __sk_buff* skb, const struct Packet* p) {
    struct bpf_sock_tuple tuple = {};
    if (p->v6) {
        __builtin_memcpy(tuple.ipv6.saddr, p->flow.client, sizeof tuple.ipv6.saddr);
        __builtin_memcpy(tuple.ipv6.daddr, p->flow.server, sizeof tuple.ipv6.daddr);
        tuple.ipv6.sport = p->flow.client_port;
        tuple.ipv6.dport = p->flow.server_port;
        return bpf_skc_lookup_tcp(skb, &tuple, sizeof tuple.ipv6, BPF_F_CURRENT_NETNS, 0);
    }
    tuple.ipv4.saddr = p->flow.client[3];
    tuple.ipv4.daddr = p->flow.server[3];
    tuple.ipv4.sport = p->flow.client_port;
    tuple.ipv4.dport = p->flow.server_port;
    return bpf_skc_lookup_tcp(skb, &tuple, sizeof tuple.ipv4, BPF_F_CURRENT_NETNS, 0);
}

/// Gives the segment, the first of its connection, to the kernel's TCP; else resets the connection.
static __always_inline int promote(struct __sk_buff* skb, const struct Packet* p,
                                   struct bpf_sock* listener, __u32 reason) {
    struct bpf_tcp_req_attrs attrs = {};
    attrs.mss = class_mss(p, mss_in(p->ack));
    barrier_var(reason);
    if (reason >= kReasons) { // for the verifier
        return TC_ACT_SHOT;
    }
    if (settings.promote) {
        void* sk = bpf_skc_to_tcp_sock(listener);
        if (sk && bpf_sk_assign_tcp_reqsk(skb, sk, &attrs, sizeof attrs) == 0) {
            COUNT(promoted[reason]);
            return TC_ACT_OK;
        }
    }
    COUNT(not_promoted[reason]);
    if (send_back(skb, p, p->ack, 0, kRstFlag, 0) != 0) {
        return TC_ACT_SHOT;
    }
    COUNT(reset);
    return bpf_redirect(skb->ifindex, 0);
}

/// The query of an entry is for the kernel's TCP when it comes again, for a reason that its reply
/// or another segment gave.
static __always_inline void promote_reply(struct StatelessEntry* entry, __u32 reason) {
    if (!(entry->bits & kPromote)) {
        set_bits(entry, kPromote | (reason - kTruncated) << kReasonShift);
    }
}

static __always_inline void forget(const struct StatelessFlow* flow) {
    if (bpf_map_delete_elem(&flows, flow) == 0) {
        __sync_fetch_and_sub(&state.in_flight, 1);
        __sync_fetch_and_add(&state.lived, bpf_ktime_get_ns());
    }
}

/// Replies over UDP that still come are not the client's any more.
static __always_inline void swallow_replies(const struct StatelessFlow* flow,
                                            struct StatelessEntry* entry) {
    set_bits(entry, kPromote | kPromoted);
    if ((entry->bits & kRepliesMask) == 0) {
        forget(flow);
    }
}
