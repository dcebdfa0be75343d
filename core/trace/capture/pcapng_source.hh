#pragma once
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Packets of a pcapng file, out of a decompressed stream; those of an interface whose link type is
/// not read have LinkType::kUnknown. Throws TraceError where it has no good beginning.
std::unique_ptr<PacketSource> open_pcapng(std::unique_ptr<ByteStream> stream,
                                          const std::string& path);

} // namespace reprise::trace
