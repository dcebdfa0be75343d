#pragma once
// Why a connection cannot be served without its state: shared with the BPF programs.

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
