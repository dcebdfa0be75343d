#pragma once
#include "core/trace/capture/source.hh"

#include <memory>
#include <string>

namespace reprise::trace {

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
