#pragma once
// What fronts count. Shared with the BPF programs.

#include <linux/types.h>

/// Why a connection cannot be served without its state.
enum PromotionReason {
    kSplit,     ///< the query is not whole in its segment
    kPipelined, ///< more follows behind the query
    kSegmented, ///< TCP options, or several segments merged on their way
    kFinished,  ///< a FIN in the segment of the query
    kOpcode,    ///< not a QUERY
    kFlags,     ///< QR, AA, TC, RA, Z or a response code in the query
    kQuestion,  ///< not one question, or other sections than it and an OPT
    kTransfer,  ///< AXFR or IXFR
    kTsig,      ///< more additional records than an OPT
    kCookie,    ///< EDNS option COOKIE
    kEcs,       ///< EDNS option Client Subnet
    kOption,    ///< another EDNS option, version or flag
    kTruncated, ///< the server's reply over UDP is truncated
    kLong,      ///< the reply is longer than a segment
    kOpt,       ///< the reply's OPT is not its last record, and the client had none
    kLater,     ///< another query came while the first was in flight
    kFull,      ///< the map has no room
    kReused,    ///< a query that came from the same port before is still in flight
    kWindow,    ///< the client takes less than a segment
    kReasons,
};

/// Counts since the start, of segments unless said otherwise.
struct StatelessCounts {
    __u64 syn;                    ///< SYNs taken
    __u64 syn_ack;                ///< sent
    __u64 handshake_ack;          ///< ACKs without data, dropped
    __u64 queries;                ///< passed on over UDP
    __u64 retransmitted;          ///< of them sent again by clients while one was in flight
    __u64 replies;                ///< UDP answers sent on over TCP
    __u64 segments;               ///< that they made
    __u64 fin;                    ///< of clients
    __u64 rst;                    ///< of clients
    __u64 reset;                  ///< RSTs sent
    __u64 promoted[kReasons];     ///< connections given to the kernel's TCP, or to a relay
    __u64 not_promoted[kReasons]; ///< the same where that is off or impossible
    __u64 refused_cookies;        ///< their acknowledgement proves no handshake
    __u64 waiting;   ///< out of order or while a query was in flight; dropped, for the client to
                     ///< send again
    __u64 evictions; ///< entries pushed out by newer ones
    __u64 expired;   ///< entries that reached the timeout
    __u64 dropped;   ///< UDP answers of connections that the kernel's TCP has
    __u64 late;      ///< UDP answers whose entry was gone
    __u64 unsent;    ///< packets and UDP queries that the kernel did not take
    __u64 truncated; ///< UDP replies forced to TC
    __u64 malformed; ///< packets that contradict themselves
    __u64 passed;    ///< packets left to the kernel
    __u64 in_time;   ///< ns of the program for packets that come in, where that is timed
    __u64 out_time;  ///< ns of the one for packets that leave, for the server's replies
};
