#pragma once
// Traces in the text form (text_form.hh). Rows are yielded as they come. A bad row ends the
// reading: trouble() names its line and column, what was expected, and how many queries were good.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/message.hh"

#include <memory>
#include <string>

namespace reprise::trace {

bool looks_like_text(Bytes head);

std::unique_ptr<MessageSource> open_text(std::unique_ptr<ByteStream> stream,
                                         const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
