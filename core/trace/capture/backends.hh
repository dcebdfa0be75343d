#pragma once
// What open_source() chooses from; source.hh says by what.

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

/// Packets of a pcapng file, out of a decompressed stream; those of an interface whose link type is
/// not read have LinkType::kUnknown. Throws TraceError where it has no good beginning.
std::unique_ptr<PacketSource> open_pcapng(std::unique_ptr<ByteStream> stream,
                                          const std::string& path);

/// The numbers in a pcap file's record headers.
struct PcapNumbers {
    bool big_endian = false;
    bool nanoseconds = false;
};

/// Packets by libtrace: `format` is its name for it, "pcapfile" or "erf". Null where libtrace does
/// not take the file.
std::unique_ptr<PacketSource> open_libtrace(const std::string& format, const std::string& path,
                                            PcapNumbers numbers);

} // namespace reprise::trace
