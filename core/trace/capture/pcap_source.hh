#pragma once
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::trace {

/// Whether a pcap file's times are in nanoseconds, by its magic number in either byte order.
bool has_nanoseconds(Bytes head);

/// A record's time. Both numbers are unsigned; a fraction of more than a second is added all the
/// same.
Nanoseconds pcap_time(std::uint32_t seconds, std::uint32_t fraction, bool nanoseconds);

/// Packets of a pcap file by libpcap, out of a decompressed stream.
std::unique_ptr<PacketSource> open_pcap(std::unique_ptr<ByteStream> stream,
                                        const std::string& path);

} // namespace reprise::trace
