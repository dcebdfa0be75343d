#pragma once
// Frames that reach this host's stack, from a ring shared with the kernel (TPACKET_V2). The stack
// gets its copy all the same.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/route.hh"

#include <cstddef>
#include <cstdint>
#include <linux/filter.h>
#include <span>
#include <vector>

namespace reprise::querier {

/// Which frames a packet socket hands over, as a classic BPF program. Accepts Ethernet frames
/// that carry, from a server: UDP from its port, a fragment of UDP, or IPv6 with extension
/// headers before whatever follows; and, from anybody, ICMP errors "unreachable" about a packet
/// to a server. Nothing else.
std::vector<sock_filter> reply_filter(const Servers& servers);

class FrameRing {
public:
    struct Frame {
        std::span<std::uint8_t> bytes; ///< may be changed; good until release()
        std::uint32_t wire_length = 0; ///< more than bytes.size() where the frame was too long
        Nanoseconds time = 0;          ///< realtime, by the kernel
    };

    /// Takes the servers' replies (see reply_filter()) of the interface. Holds up to `frames`, each
    /// of twice the MTU at most. Throws SystemError.
    FrameRing(const PacketRoute& route, const Servers& servers, size_t frames);
    /// The oldest frame, or nothing: then `bytes` is empty.
    Frame front();

    /// Gives the oldest frame back to the kernel.
    void release();

    /// Frames dropped since the last call because the ring was full. A system call.
    std::uint64_t take_drops();

private:
    FileDescriptor socket_;
    Mapping memory_;
    size_t frame_size_;
    size_t count_;
    size_t next_ = 0;
};

} // namespace reprise::querier
