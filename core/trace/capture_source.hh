#pragma once
// Captures: packets from libtrace or libpcap, put together by the Assembler.

#include "core/trace/capture/source.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reader.hh"

#include <memory>

namespace reprise::trace {

std::unique_ptr<MessageSource> open_capture(std::unique_ptr<PacketSource> packets,
                                            const ReaderOptions& options);

} // namespace reprise::trace
