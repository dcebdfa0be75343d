#pragma once
// A trace in any form but a capture, one implementation each: the text and the stream form, other
// tools' forms. open_trace() chooses by content.

#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/trace/capture/source.hh" // IWYU pragma: export
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstdint>

namespace reprise::trace {

/// Throws Error where the message is of a size that no reader takes: no file is written that cannot
/// be read back.
inline void check_message_size(const Query& query) {
    const size_t size = query.message.size();
    if (!query.is_close() && (size < kDnsHeaderSize || size > kMaxMessage)) {
        throw Error(fmt::format("query {} has {} bytes, but a DNS message has 12 to 65535; keep "
                                "rules from making it so",
                                query.sequence, size));
    }
}

/// The greatest number of a connection that a trace may give: there is room to number the
/// connections of some thousand traces, laps or copies apart.
inline constexpr std::uint64_t kMaxConnection = (1ULL << 48U) - 1;

/// Yields messages in file order.
class MessageSource : public TraceSource {
public:
    /// False at the end and at trouble. `query.message` is good until the next call. A source sets
    /// every member of `query` that a trace has.
    virtual bool next(Query& query) = 0;

    /// Whether next() will not wait for whoever writes the trace; false where that is not known.
    [[nodiscard]] virtual bool ready() const { return false; }

    /// Packets, rows or records read so far.
    [[nodiscard]] virtual std::uint64_t packets() const = 0;

    [[nodiscard]] virtual Counters counters() const = 0;
};

} // namespace reprise::trace
