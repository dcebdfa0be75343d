#pragma once
#include "core/trace/source.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Packets by libtrace: `format` is its name for it, "pcapfile" or "erf". Null where libtrace does
/// not take the file.
std::unique_ptr<PacketSource> open_libtrace(const std::string& format, const std::string& path);

} // namespace reprise::trace
