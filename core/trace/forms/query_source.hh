#pragma once
// What the forms that hold queries have in common: which closes are yielded, and the counts.

#include "core/base/address.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <string>

namespace reprise::trace {

// Addresses where a log of a server (dnstap, C-DNS) has none.

/// 0.0.0.0 or ::, for a source that is not told.
IpAddress nobody(bool ipv6);

/// 192.0.2.53 or 2001:db8::53 (RFC 5737, RFC 3849), for a server that is not told.
IpAddress example_server(bool ipv6);

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

} // namespace reprise::trace
