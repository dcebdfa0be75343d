#pragma once
// A trace in any form but a capture, one implementation each: the text and the stream form, other
// tools' forms. open_trace() chooses by content.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh" // IWYU pragma: export
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {

/// The greatest number of a connection that a trace may give: there is room to number the
/// connections of some thousand traces, laps or copies apart.
inline constexpr std::uint64_t kMaxConnection = (1ULL << 48U) - 1;

/// The trouble of a form that says itself where it ends.
inline constexpr std::string_view kBehindEnd =
    "something follows the trace's end; merge traces by reprise mutate";

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

// Addresses where a log of a server (dnstap, C-DNS) has none.

/// 0.0.0.0 or ::, for a source that is not told.
IpAddress nobody(bool ipv6);

/// 192.0.2.53 or 2001:db8::53 (RFC 5737, RFC 3849), for a server that is not told.
IpAddress example_server(bool ipv6);

/// What the forms that hold queries have in common: which closes are yielded, and the counts.
class QuerySource : public MessageSource {
public:
    explicit QuerySource(const ReaderOptions& options) : closes_(options.closes) {}

    bool next(Query& query) final;

    /// Rows or records: queries and closes.
    [[nodiscard]] std::uint64_t packets() const final { return items_; }

    [[nodiscard]] Counters counters() const final { return {}; }

protected:
    /// The next query or close; false at the end and where fail() was called.
    virtual bool next_query(Query& query) = 0;

    /// Ends reading: `what` at `place`, for example "line 3". Always false.
    bool fail(const std::string& place, const std::string& what);

    /// Whether next() passes over no closes, and so yields whatever next_query() does.
    [[nodiscard]] bool takes_closes() const { return closes_; }

    /// Queries yielded so far.
    [[nodiscard]] std::uint64_t good() const { return good_; }

    /// Queries and closes read so far.
    [[nodiscard]] std::uint64_t items() const { return items_; }

private:
    bool closes_;
    std::uint64_t good_ = 0;
    std::uint64_t items_ = 0;
};

/// A form of trace and how it is known. What is of none is a packet capture, or refused.
struct Form {
    /// Whether a trace that begins with `head` is of this form: the first kHead bytes, of text the
    /// first lines up to one that is neither empty nor a comment. Fewer where the trace is shorter.
    bool (*fits)(Bytes head);

    /// `stream` is at its beginning, and what `path` names. Throws TraceError.
    std::unique_ptr<MessageSource> (*open)(std::unique_ptr<ByteStream> stream,
                                           const std::string& path, const ReaderOptions& options);

    static constexpr size_t kHead = 16; ///< bytes that may be waited for on a live pipe
};

/// Form::open of a source that is constructed of the same.
template <typename Source>
std::unique_ptr<MessageSource> open_as(std::unique_ptr<ByteStream> stream, const std::string& path,
                                       const ReaderOptions& options) {
    return std::make_unique<Source>(std::move(stream), path, options);
}

extern const Form kDnstapForm; ///< any frame stream; whether it is dnstap, open() says
extern const Form kCdnsForm;
extern const Form kStreamForm;
extern const Form kTextForm;
extern const Form kFsdbForm;
extern const Form kDnsperfForm;

} // namespace reprise::trace
