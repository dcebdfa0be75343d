#pragma once
// A form of trace and how it is known. open_trace() asks one form after the other; what none of
// them knows is a packet capture, or refused.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"

#include <memory>
#include <string>

namespace reprise::trace {

struct Form {
    /// Whether a trace that begins with `head` is of this form: the first kHead bytes, of text the
    /// first lines up to one that is neither empty nor a comment. Fewer where the trace is shorter.
    bool (*fits)(Bytes head);

    /// `stream` is at its beginning, and what `path` names. Throws TraceError.
    std::unique_ptr<MessageSource> (*open)(std::unique_ptr<ByteStream> stream,
                                           const std::string& path, const ReaderOptions& options);

    static constexpr size_t kHead = 16; ///< bytes that may be waited for on a live pipe
};

} // namespace reprise::trace
