#pragma once
#include "core/trace/byte_stream.hh"
#include "core/trace/source.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Packets by libpcap out of a decompressed stream. `format` is "pcap" or "pcapng", for
/// description().
std::unique_ptr<PacketSource> open_pcap(std::unique_ptr<ByteStream> stream, const std::string& path,
                                        const std::string& format);

} // namespace reprise::trace
