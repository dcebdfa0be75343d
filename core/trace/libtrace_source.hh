#pragma once
#include "core/trace/source.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Packets by libtrace: `format` is its name for it, "pcapfile" or "erf"; `big_endian` are the
/// numbers in the file's record headers. Null where libtrace does not take the file.
std::unique_ptr<PacketSource> open_libtrace(const std::string& format, const std::string& path,
                                            bool big_endian);

} // namespace reprise::trace
