#pragma once
// What the BPF programs of the front and their loader share. Addresses, ports and identifiers are
// in network byte order unless said otherwise.

#include "proxy/stateless/common/counts.h"

#include <linux/types.h>

/// One connection. IPv4 addresses are mapped (::ffff:a.b.c.d).
struct StatelessFlow {
    __u32 client[4];
    __u32 server[4];
    __u16 client_port;
    __u16 server_port;
};

/// A query in flight: all that the front knows of a connection. Sequence numbers are in host order.
struct StatelessEntry {
    __u32 seq;    ///< of the first byte to the client
    __u32 next;   ///< behind the query; the client's FIN, where it came, is one more
    __u16 id;     ///< of the message
    __u16 length; ///< of the query with its length field, as the client sent it
    __u16 bits;   ///< EntryBits; changes only together with the stamp, see promote.bpf.h
    __u16 stamp;  ///< when the query was last seen: CLOCK_MONOTONIC_COARSE >> kStampShift
};

enum { kStampShift = 24 }; ///< units of 16.8 ms

enum { kPatience = 3 }; ///< copies of a segment that wait for one before it

enum EntryBits {
    kMssMask = 0x3,      ///< the class of the client's maximum segment size
    kReplies = 0x4,      ///< the unit of the replies that are still expected
    kRepliesMask = 0xc,  ///< at most 3 are counted; of more, see kMany
    kRecursion = 0x10,   ///< RD of the query
    kAuthentic = 0x20,   ///< AD
    kNoChecking = 0x40,  ///< CD
    kHadOpt = 0x80,      ///< the query had an OPT record
    kDnssecOk = 0x100,   ///< with DO
    kHalfClosed = 0x200, ///< the client's FIN came
    kPromote = 0x400,    ///< the kernel's TCP gets the query when it comes again
    kPromoted = 0x800,   ///< it has got it: replies over UDP that still come are dropped
    kReasonShift = 12,   ///< above: why, as the distance from kTruncated
    kMany = 0x8000,      ///< more than can be counted: the entry is kept until its timeout
    kAnswered = 0x4000,  ///< a reply has left; copies of the query are still with the server
};

/// Fixed when the programs are loaded.
struct StatelessSettings {
    __u16 port;     ///< of the server
    __u16 truncate; ///< UDP replies longer than this become truncated ones; host order, 0 = none
    __u8 promote;
    __u8 early_ack;
    __u8 axfr_detect;
    __u8 timed;
};

/// Changed by the loader while the programs run.
struct StatelessState {
    __u64 keys[2][2]; ///< of the cookies: this period's and that of the last
    __u32 current;    ///< index of this period's
    __u32 some_gone;  ///< the map `gone` has entries
    __u16 mss4;       ///< what the interface's MTU leaves for a segment; host order
    __u16 mss6;
    /// Counted by the programs and the loader, in a cache line of their own.
    __u64 in_flight __attribute__((aligned(64))); ///< entries of the map
    __u64 most_in_flight; ///< so far; short of it by one for each processor that came at once
    __u64 lived;          ///< when entries went less when they came, CLOCK_MONOTONIC in ns, summed
};
