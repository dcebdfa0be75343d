#pragma once
// What the XDP program and the querier owe each other. C and C++.

#include <linux/types.h>

/// Bytes of a plain reply that the program hands over: the DNS header and a question with a name of
/// up to 64 bytes; and of the longest frame that it hands over whole.
enum { kReplyPrefix = 80, kLongestFrame = 16352 };

/// The beginning of a record in the ring buffer.
struct ReplyHead {
    __u64 time;       ///< CLOCK_MONOTONIC, ns
    __u8 address[16]; ///< destination: a source of the trace; IPv4 in the first 4 bytes
    __u16 port;       ///< destination, host byte order
    __u16 size;       ///< of the DNS message; of the frame
    __u8 family; ///< 4 or 6: a PacketRecord; 0: a FrameRecord, where address and port are unused
    __u8 passed; ///< the stack gets the frame, too
    __u16 kept;  ///< bytes of `dns` that are filled
};

/// One plain reply.
struct PacketRecord {
    struct ReplyHead head;
    __u8 dns[kReplyPrefix];
};

/// A frame as it came. The record ends with the frame.
struct FrameRecord {
    struct ReplyHead head;
    __u8 frame[kLongestFrame];
};

/// Whose replies to take; all in network byte order. A port of 0 takes none of that family.
struct PacketServers {
    __u8 v4[4];
    __u8 v6[16];
    __u16 port4;
    __u16 port6;
    __u8 whole; ///< plain replies are wanted whole
};
