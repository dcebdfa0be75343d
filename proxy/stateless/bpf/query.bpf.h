#pragma once

// From a segment with a whole query to a UDP datagram.

enum {
    kDnsHeader = 12,
    kLongestName = 255,
    kLongestLabel = 63,
    kTypeAndClass = 4,
    kOptRecord = 11, ///< without options
    kTypeOpt = 41,
    kTypeTsig = 250,
    kTypeIxfr = 251,
    kTypeAxfr = 252,
    kOptionEcs = 8,
    kOptionCookie = 10,
    kLongestQuery = kDnsHeader + kLongestName + kTypeAndClass + kOptRecord,
    kLongestQueryRounded = (kLongestQuery + 3) / 4 * 4,
    kScratch = 512,
    kEarlyAckMark = 0x53544c53,
    kEnough = kReasons,
};

/// The beginning of a message, with room for reads behind an offset that is only known
/// to be below kScratch.
struct Scratch {
    __u8 bytes[2 * kScratch];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct Scratch);
} scratch SEC(".maps");

static __always_inline __u8* scratch_bytes(void) {
    const __u32 zero = 0;
    struct Scratch* found = bpf_map_lookup_elem(&scratch, &zero);
    return found ? found->bytes : 0;
}

struct Query {
    __u16 id;
    __u16 bits;
    __u16 length; ///< of the message
    __u16 opt;    ///< offset of its OPT; where it has none, its length
};

static __always_inline __u16 word(const __u8* bytes, __u32 at) {
    at &= kScratch - 1;
    return (__u16)bytes[at] << 8 | bytes[at + 1];
}

/// The offset behind a name without compression; 0 where it is none.
static __always_inline __u32 behind_name(const __u8* bytes, __u32 length) {
    __u32 at = kDnsHeader;
    for (int i = 0; i < 128; ++i) {
        if (at >= length || at >= kDnsHeader + kLongestName) {
            return 0;
        }
        const __u8 label = bytes[at & (kScratch - 1)];
        if (label == 0) {
            return at + 1;
        }
        if (label > kLongestLabel) {
            return 0;
        }
        at += label + 1;
    }
    return 0;
}

/// Why the options of an OPT at `at` need the kernel's TCP; -1 where there are none.
static __always_inline int reason_of_opt(const __u8* bytes, __u32 at, __u32 length) {
    const __u16 flags = word(bytes, at + 7);
    const __u16 size = word(bytes, at + 9);
    if (size >= 4) {
        const __u16 code = word(bytes, at + kOptRecord);
        return code == kOptionCookie ? kCookie : code == kOptionEcs ? kEcs : kOption;
    }
    if (size != 0 || at + kOptRecord != length || word(bytes, at + 5) != 0 ||
        (flags & 0x7fff) != 0) {
        return kOption;
    }
    return -1;
}

/// Reads a message of `q->length` bytes, of which `kept` are at hand. The reason why it needs the
/// kernel's TCP, or -1.
static __always_inline int read_message(const __u8* bytes, __u32 kept, struct Query* q) {
    if ((bytes[2] & 0x78) != 0) {
        return kOpcode;
    }
    if ((bytes[2] & 0x86) != 0 || (bytes[3] & 0xcf) != 0) {
        return kFlags;
    }
    if (word(bytes, 4) != 1 || word(bytes, 6) != 0 || word(bytes, 8) != 0) {
        return kQuestion;
    }
    __builtin_memcpy(&q->id, bytes, sizeof q->id);
    q->bits = ((bytes[2] & 0x01) ? kRecursion : 0) | ((bytes[3] & 0x20) ? kAuthentic : 0) |
              ((bytes[3] & 0x10) ? kNoChecking : 0);
    const __u32 at = behind_name(bytes, kept);
    if (at == 0 || at + kTypeAndClass > kept) {
        return kQuestion;
    }
    const __u16 type = word(bytes, at);
    if ((type == kTypeAxfr || type == kTypeIxfr) && settings.axfr_detect) {
        return kTransfer;
    }
    q->opt = at + kTypeAndClass;
    const __u16 additional = word(bytes, 10);
    if (additional == 0) {
        return q->opt == q->length ? -1 : kQuestion;
    }
    if (additional != 1 || q->opt + kOptRecord > kept || bytes[q->opt & (kScratch - 1)] != 0 ||
        word(bytes, q->opt + 1) != kTypeOpt) {
        return kTsig;
    }
    q->bits |= kHadOpt | ((word(bytes, q->opt + 7) & 0x8000) ? kDnssecOk : 0);
    return reason_of_opt(bytes, q->opt, q->length);
}

/// The reason why a first segment needs the kernel's TCP, or -1.
static __always_inline int read_query(struct __sk_buff* skb, const struct Packet* p,
                                      struct Query* q) {
    const __u32 payload = p->length - p->header;
    __u8* bytes = scratch_bytes();
    __u16 prefix = 0;
    if (p->flags & kFinFlag) {
        return kFinished;
    }
    if (p->header != kTcp || (p->flags & kUrgentFlag) || skb->gso_segs > 1) {
        return kSegmented;
    }
    if (p->window < class_mss(p, mss_in(p->ack))) {
        return kWindow;
    }
    if (!bytes || payload < kLengthField ||
        bpf_skb_load_bytes(skb, p->l4 + kTcp, &prefix, sizeof prefix) != 0) {
        return kSplit;
    }
    q->length = bpf_ntohs(prefix);
    if (q->length != payload - kLengthField) {
        return q->length > payload - kLengthField ? kSplit : kPipelined;
    }
    __u32 kept = q->length;
    if (kept < kDnsHeader + 1 + kTypeAndClass) {
        return kQuestion;
    }
    kept = kept < kLongestQuery + 8 ? kept : kLongestQuery + 8;
    if (bpf_skb_load_bytes(skb, p->l4 + kTcp + kLengthField, bytes, kept) != 0) {
        return kQuestion;
    }
    return read_message(bytes, kept, q);
}

/// A sum over bytes that begin at an offset of the message, whose words begin at even ones.
static __always_inline __u32 placed(__u32 sum, __u32 offset) {
    sum = fold(sum);
    return offset & 1 ? __builtin_bswap16(sum) : sum;
}

struct OptRecord {
    __u8 name;
    __u8 type[2];
    __u8 size[2];
    __u8 flags[4];
    __u8 length[2];
    __u8 unused;
};

static __always_inline __u32 sum_of(struct OptRecord* opt) {
    return bpf_csum_diff(0, 0, (__be32*)opt, sizeof *opt, 0);
}

/// The sum of the datagram with the message as it came: by the checksum of the segment, so that a
/// wrong one stays wrong.
static __always_inline __u32 datagram_sum(struct __sk_buff* skb, const struct Packet* p,
                                          __u16 udp_length) {
    __u16 from[14] = {};
    __u16 to[6] = {p->flow.client_port,    p->flow.server_port,  bpf_htons(udp_length), 0,
                   bpf_htons(IPPROTO_UDP), bpf_htons(udp_length)};
    if (bpf_skb_load_bytes(skb, p->l4, from, kTcp + kLengthField) != 0) {
        return 0;
    }
    from[8] = 0;
    from[11] = bpf_htons(IPPROTO_TCP);
    from[12] = bpf_htons(p->length);
    return fold(
        bpf_csum_diff((__be32*)from, sizeof from, (__be32*)to, sizeof to, ~p->check & 0xffff));
}

/// The same where the segment came without its checksum.
static __always_inline __u32 whole_sum(struct __sk_buff* skb, const struct Packet* p, __u32 length,
                                       __u16 udp_length) {
    __u16 header[4] = {p->flow.client_port, p->flow.server_port, bpf_htons(udp_length), 0};
    __u8* bytes = scratch_bytes();
    if (!bytes) {
        return 0;
    }
    __builtin_memset(bytes, 0, kLongestQueryRounded);
    barrier_var(length);
    if (length == 0 || length > kLongestQueryRounded ||
        bpf_skb_load_bytes(skb, p->l4 + kTcp + kLengthField, bytes, length) != 0) {
        return 0;
    }
    const __u32 sum = bpf_csum_diff(0, 0, (__be32*)bytes, kLongestQueryRounded,
                                    pseudo_sum(p, IPPROTO_UDP, udp_length));
    return fold(bpf_csum_diff(0, 0, (__be32*)header, sizeof header, fold(sum)));
}

/// The checksum of the datagram. `size`: what the OPT says from now on, instead of `before` or,
/// where the query had none, in the new record `opt`.
static __always_inline __u16 datagram_check(struct __sk_buff* skb, const struct Packet* p,
                                            const struct Query* q, __u16 udp_length, __u16 before,
                                            __u16 size, struct OptRecord* opt) {
    __u32 sum = is_left_to_others(skb, p) ? whole_sum(skb, p, q->length, udp_length)
                                          : datagram_sum(skb, p, udp_length);
    if (q->bits & kHadOpt) {
        sum += placed((~before & 0xffff) + size, q->opt + 3);
    } else {
        sum += placed(sum_of(opt), q->opt) + bpf_htons(1); // ARCOUNT
    }
    sum = ~fold(sum) & 0xffff;
    return sum ? sum : 0xffff;
}

/// Writes the IP and UDP headers in front of the message.
static __always_inline int write_headers(struct __sk_buff* skb, const struct Packet* p,
                                         __u16 udp_length, __u16 check) {
    const struct udphdr udp = {.source = p->flow.client_port,
                               .dest = p->flow.server_port,
                               .len = bpf_htons(udp_length),
                               .check = check};
    if (p->v6) {
        const __u16 length = bpf_htons(udp_length);
        const __u8 protocol = IPPROTO_UDP;
        return bpf_skb_store_bytes(skb, kEthernet + 4, &length, sizeof length,
                                   BPF_F_RECOMPUTE_CSUM) ||
               bpf_skb_store_bytes(skb, kEthernet + 6, &protocol, sizeof protocol,
                                   BPF_F_RECOMPUTE_CSUM) ||
               bpf_skb_store_bytes(skb, kV6Headers, &udp, sizeof udp, BPF_F_RECOMPUTE_CSUM);
    }

    struct {
        struct iphdr ip;
        struct udphdr udp;
    } both;

    if (bpf_skb_load_bytes(skb, kEthernet, &both.ip, sizeof both.ip) != 0) {
        return -1;
    }
    both.ip.protocol = IPPROTO_UDP;
    both.ip.tot_len = bpf_htons(sizeof both.ip + udp_length);
    both.ip.check = 0;
    both.ip.check = ~fold(bpf_csum_diff(0, 0, (__be32*)&both.ip, sizeof both.ip, 0));
    both.udp = udp;
    return bpf_skb_store_bytes(skb, kEthernet, &both, sizeof both, BPF_F_RECOMPUTE_CSUM);
}

/// The segment becomes a datagram in place. Its OPT says how much fits in one segment of the
/// client; a query without one gets it, so that the server may use more than 512 bytes.
static __always_inline int to_datagram(struct __sk_buff* skb, const struct Packet* p,
                                       const struct Query* q) {
    const __u16 size = bpf_htons(class_mss(p, q->bits & kMssMask) - kLengthField);
    const int added = q->bits & kHadOpt ? 0 : kOptRecord;
    const __u16 udp_length = kUdp + q->length + added;
    const __u32 message = p->l4 + kTcp + kLengthField; // its offset
    struct OptRecord opt = {.type = {0, kTypeOpt}};
    __u16 before = 0;
    __builtin_memcpy(opt.size, &size, sizeof size);
    if (!added && bpf_skb_load_bytes(skb, message + q->opt + 3, &before, sizeof before) != 0) {
        return -1;
    }
    const __u16 check = datagram_check(skb, p, q, udp_length, before, size, &opt);
    const __u32 whole = p->l4 + p->length + added;
    if (skb->len != whole && bpf_skb_change_tail(skb, whole, 0) != 0) {
        return -1;
    }
    if (added) {
        const __u16 one = bpf_htons(1);
        if (bpf_skb_store_bytes(skb, message + q->opt, &opt, kOptRecord, BPF_F_RECOMPUTE_CSUM) ||
            bpf_skb_store_bytes(skb, message + 10, &one, sizeof one, BPF_F_RECOMPUTE_CSUM)) {
            return -1;
        }
    } else if (bpf_skb_store_bytes(skb, message + q->opt + 3, &size, sizeof size,
                                   BPF_F_RECOMPUTE_CSUM) != 0) {
        return -1;
    }
    if (bpf_skb_adjust_room(skb, -kLonger, BPF_ADJ_ROOM_NET, BPF_F_ADJ_ROOM_NO_CSUM_RESET) != 0) {
        return -1;
    }
    return write_headers(skb, p, udp_length, check);
}

/// Expects one reply more. False where other processors kept it from that.
static __always_inline int one_reply_more(struct StatelessEntry* entry, __u32 seq, __u16 id) {
    for (int tries = 0; tries < kTries; ++tries) {
        const struct Marks before = marks_of(entry);
        if (!is_of(entry, seq, id)) {
            return 0;
        }
        const int full = (before.bits & kRepliesMask) == kRepliesMask;
        const __u16 bits = full ? before.bits | kMany : before.bits + kReplies;
        if (replace_marks(entry, before, (struct Marks){.bits = bits, .stamp = now()})) {
            return 1;
        }
    }
    return 0;
}

/// Keeps what the reply needs. The reason why it cannot, -1, or kEnough where another processor
/// has just taken a copy. Any copy goes to the server: it may have lost all before.
static __always_inline int remember(const struct Packet* p, const struct Query* q,
                                    struct StatelessEntry* old) {
    if (old && old->seq == p->ack && old->id == q->id) {
        COUNT(retransmitted);
        return one_reply_more(old, p->ack, q->id) ? -1 : kEnough;
    }
    if (old) { // its reply must not be taken for this query's
        return kReused;
    }
    const struct StatelessEntry entry = {
        .seq = p->ack,
        .next = p->seq + p->length - p->header,
        .id = q->id,
        .length = q->length + kLengthField,
        .bits = q->bits | kReplies,
        .stamp = now(),
    };
    if (bpf_map_update_elem(&flows, &p->flow, &entry, BPF_NOEXIST) != 0) {
        // Another processor may have taken a copy of the query at the same moment.
        return bpf_map_lookup_elem(&flows, &p->flow) ? kEnough : kFull;
    }
    one_more_in_flight();
    return -1;
}

/// The front acknowledges at once where it is told to: a copy of the segment goes back, and becomes
/// the acknowledgement on its way out.
static __always_inline void acknowledge_early(struct __sk_buff* skb) {
    const __u32 mark = skb->mark;
    skb->mark = kEarlyAckMark;
    bpf_clone_redirect(skb, skb->ifindex, 0);
    skb->mark = mark;
}

/// The first data of a connection, proven by its cookie.
static __always_inline int take_query(struct __sk_buff* skb, const struct Packet* p,
                                      struct bpf_sock* listener) {
    struct StatelessEntry* old = bpf_map_lookup_elem(&flows, &p->flow);
    struct Query q = {};
    int reason = -1;
    const int same = old && old->seq == p->ack;
    if (same && (old->bits & kPromote)) {
        reason = kTruncated + (old->bits >> kReasonShift & 3);
    } else {
        reason = read_query(skb, p, &q);
    }
    q.bits |= mss_in(p->ack);
    if (reason < 0) {
        reason = remember(p, &q, old);
    }
    if (reason == kEnough || (reason >= 0 && same && (old->bits & kAnswered))) {
        return TC_ACT_SHOT; // its reply has these numbers already; the client sends what it lacks
                            // again
    }
    if (reason >= 0) {
        if (old) {
            swallow_replies(&p->flow, old);
        }
        return promote(skb, p, listener, reason);
    }
    COUNT(queries);
    if (settings.early_ack) {
        acknowledge_early(skb);
    }
    if (to_datagram(skb, p, &q) != 0) {
        return TC_ACT_SHOT; // the client sends it again
    }
    return TC_ACT_UNSPEC;
}
