#pragma once
// A trace in any form but a capture, one implementation each: the text and the stream form, other
// tools' forms. open_trace() chooses by content.

#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh" // IWYU pragma: export
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <array>
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

// Addresses where a log of a server (dnstap, C-DNS) has none.

/// 0.0.0.0 or ::, for a source that is not told.
inline IpAddress unspecified(bool ipv6) {
    IpAddress address;
    address.family = ipv6 ? 6 : 4;
    return address;
}

/// 192.0.2.53 or 2001:db8::53 (RFC 5737, RFC 3849), for a server that is not told.
inline IpAddress example_server(bool ipv6) {
    constexpr std::array<std::uint8_t, 4> kFour{192, 0, 2, 53};
    constexpr std::array<std::uint8_t, 16> kSix{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0,
                                                0,    0,    0,    0,    0, 0, 0, 0x53};
    return ipv6 ? IpAddress::v6(kSix.data()) : IpAddress::v4(kFour.data());
}

/// What the forms that hold queries have in common: the counts.
class QuerySource : public TraceSource {
public:
    using TraceSource::TraceSource;

    bool next(Packet& /*packet*/, Query& query) final {
        const bool more = next_query(query);
        items_ += more ? 1U : 0U;
        good_ += more && !query.is_close() ? 1U : 0U;
        return more;
    }

protected:
    /// The next query or close; false at the end and where fail() was called.
    virtual bool next_query(Query& query) = 0;

    /// Ends reading: `what` at `place`, for example "line 3". Always false.
    bool fail(const std::string& place, const std::string& what) {
        trouble_ = fmt::format("{}, {} ({} {} good)", place, what, good_,
                               good_ == 1 ? "query was" : "queries were");
        return false;
    }

private:
    std::uint64_t good_ = 0;
};

/// A form of trace and how it is known. What is of none is a packet capture, or refused.
struct Form {
    /// Whether a trace that begins with `head` is of this form: the first kHead bytes, of text the
    /// first lines up to one that is neither empty nor a comment. Fewer where the trace is shorter.
    bool (*fits)(Bytes head);

    /// `stream` is at its beginning, and what `path` names. Throws TraceError.
    std::unique_ptr<TraceSource> (*open)(std::unique_ptr<ByteStream> stream,
                                         const std::string& path);

    static constexpr size_t kHead = 16; ///< bytes that may be waited for on a live pipe
};

/// Form::open of a source that is constructed of the same.
template <typename Source>
std::unique_ptr<TraceSource> open_as(std::unique_ptr<ByteStream> stream, const std::string& path) {
    return std::make_unique<Source>(std::move(stream), path);
}

extern const Form kDnstapForm; ///< any frame stream; whether it is dnstap, open() says
extern const Form kCdnsForm;
extern const Form kStreamForm;
extern const Form kTextForm;
extern const Form kFsdbForm;
extern const Form kDnsperfForm;

} // namespace reprise::trace
