#pragma once
// What a capture file is made of: pcap with nanosecond times and raw IP packets (LINKTYPE_RAW).

#include "core/base/clock.hh"

#include <cstdint>

namespace reprise::trace {

/// Times are 32-bit seconds: to the year 2106.
inline constexpr Nanoseconds kLastPcapSecond = 0xffffffff;

/// At the beginning of the file.
struct PcapFileHeader {
    std::uint32_t magic = 0xa1b23c4d;
    std::uint16_t major = 2;
    std::uint16_t minor = 4;
    std::int32_t zone = 0;
    std::uint32_t accuracy = 0;
    std::uint32_t snap_length = 262'144;
    std::uint32_t link_type = 101;
};

/// Before each packet.
struct PcapPacketHeader {
    std::uint32_t seconds;
    std::uint32_t nanoseconds;
    std::uint32_t captured; ///< bytes that follow
    std::uint32_t size;     ///< bytes of the whole packet
};

} // namespace reprise::trace
