#pragma once
// Reads traces in the stream form (stream_form.hh) frame by frame, as they come. trouble() names
// what is broken by its offset in the (decompressed) stream.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/message.hh"

#include <memory>
#include <string>

namespace reprise::trace {

bool looks_like_stream(Bytes head);

std::unique_ptr<MessageSource> open_stream(std::unique_ptr<ByteStream> stream,
                                           const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
