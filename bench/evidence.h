// What the sink's BPF programs count; shared with their loader. Plain C for the bpf target.
#pragma once
#include <linux/types.h>

enum {
    kSourceBits = 1 << 20, // distinct sources are told apart by the last 20 bits of their address
    kPortBits = 1 << 16,
};

/// Counted on each processor: queries that were answered, by family; everything else, left to the
/// kernel; how many counters there are.
enum { kQueries4, kQueries6, kPassed, kCounters };

/// One bit for each source and each source port seen.
struct SinkSeen {
    __u64 sources[kSourceBits / 64];
    __u64 ports[kPortBits / 64];
};
