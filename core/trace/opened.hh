#pragma once
// Opening a trace of any form without deciding yet who puts the packets of a capture together.

#include "core/trace/capture/source.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reader.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Exactly one of the two: packets of a capture, messages of any other form.
struct Opened {
    std::unique_ptr<PacketSource> packets;
    std::unique_ptr<MessageSource> messages;

    // As Reader's.

    [[nodiscard]] const std::string& trouble() const {
        return packets ? packets->trouble() : messages->trouble();
    }

    [[nodiscard]] double share_read() const {
        return packets ? packets->share_read() : messages->share_read();
    }

    [[nodiscard]] std::string description() const {
        return packets ? packets->description() : messages->description();
    }
};

/// Opens a trace by content; "-" is standard input. Throws TraceError.
Opened open_trace(const std::string& path, const ReaderOptions& options);

} // namespace reprise::trace
