// What the sink's BPF programs count; shared with their loader. Plain C for the bpf target.
#pragma once
#include <linux/types.h>

enum {
    kSourceBits = 1 << 20, // distinct sources are told apart by the last 20 bits of their address
    kPortBits = 1 << 16,
};

/// Counted on each processor.
struct SinkCounters {
    __u64 queries4; // answered, by family
    __u64 queries6;
    __u64 query_bytes; // of the frames
    __u64 passed;      // everything else, left to the kernel
};

/// One bit for each source and each source port seen.
struct SinkSeen {
    __u64 sources[kSourceBits / 64];
    __u64 ports[kPortBits / 64];
};
