#pragma once
// Queries and responses of a capture, matched.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// What a response is to the queries before it.
enum class Asked : std::uint8_t {
    kYes,     ///< a query had its id and question
    kUnknown, ///< no query went this way: the capture may hold responses only, or begin late
    kNo,      ///< queries went this way, or by UDP others of this client did, but none had its id
              ///< and question
};

/// Remembers queries for between kPatience and twice as long, in the trace's time.
class Exchanges {
public:
    static constexpr Nanoseconds kPatience = 30 * kSecond;
    static constexpr Nanoseconds kBegin = 5 * kSecond; ///< queries may lie before the capture

    /// `keep`: the bytes of queries, for query_of().
    explicit Exchanges(bool keep = false) : keep_(keep) {}

    void query(const Query& query);

    Asked response(const Query& query);

    /// The query of a response that was kYes; empty where they are not kept.
    /// Good until the next query().
    [[nodiscard]] std::string_view query_of(const Query& response) const;

    [[nodiscard]] std::uint64_t queries() const { return queries_; }

    /// Queries that were answered, each once.
    [[nodiscard]] std::uint64_t answered() const { return answered_; }

private:
    using Hash = std::uint64_t;
    using Hashes = FlatIds<sizeof(Hash)>;

    struct Seen {
        Hashes asked;                     ///< ways with id and question
        std::vector<bool> answered;       ///< by id in `asked`
        std::vector<std::string> queries; ///< likewise, where they are kept
        Hashes ways;                      ///< addresses and ports
        Hashes clients;
    };

    void forget(Nanoseconds now);

    bool keep_;
    Seen now_;
    Seen before_;
    Nanoseconds since_ = 0;
    std::optional<Nanoseconds> first_; ///< query
    std::uint64_t queries_ = 0;
    std::uint64_t answered_ = 0;
};

} // namespace reprise::zonebuilder
