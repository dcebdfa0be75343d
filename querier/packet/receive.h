#pragma once
// What the XDP program and the querier owe each other. C and C++.

#include <linux/types.h>

/// Bytes of a reply that the program hands over: the DNS header and a question with a name of up
/// to 64 bytes, or, where the name is longer, with any.
enum { kReplyPrefix = 80, kLongPrefix = 272 };

/// One reply, in the ring buffer.
struct PacketRecord {
    __u64 time;       ///< CLOCK_MONOTONIC, ns
    __u8 address[16]; ///< destination: a source of the trace; IPv4 in the first 4 bytes
    __u16 port;       ///< destination, host byte order
    __u16 size;       ///< of the DNS message
    __u8 family;      ///< 4 or 6
    __u8 unused;
    __u16 kept; ///< bytes of `dns` that are filled, and of `rest` behind it in a LongRecord
    __u8 dns[kReplyPrefix];
};

/// One whose question does not fit in `dns`; told by `kept`.
struct LongRecord {
    struct PacketRecord begin;
    __u8 rest[kLongPrefix - kReplyPrefix];
};

/// Whose replies to take; all in network byte order. A port of 0 takes none of that family.
struct PacketServers {
    __u8 v4[4];
    __u8 v6[16];
    __u16 port4;
    __u16 port6;
};
