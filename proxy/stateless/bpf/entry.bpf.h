#pragma once
// How an entry changes. Several processors may have packets of one connection at the same moment,
// so that its bits, with the stamp beside them as one word, change by atomic operations only. If
// a compare-and-swap fails, another processor was first, and it is tried again, kTries times in
// all. After that the packet is dropped and sent again, or the entry ends by its timeout.

#include "proxy/stateless/bpf/shared.h"

#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <stddef.h>

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
