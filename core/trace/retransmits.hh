#pragma once
// Clients' own retransmits: UDP queries of the same source address, port, id and question (letter
// case counts). A query without a well-formed question is never one.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

namespace reprise::trace {

/// Equal for a query and its retransmits; nothing for what cannot be one.
std::optional<std::uint64_t> retransmit_key(Transport transport, const Endpoint& source,
                                            Bytes message);

/// Knows those within `timeout` of trace time after the query that was kept.
///
/// Memory: about 80 bytes a query kept in the last `timeout`, at most `most` of them; beyond that
/// the oldest are forgotten.
class Retransmits {
public:
    explicit Retransmits(Nanoseconds timeout, size_t most = 1UL << 20U)
        : timeout_(timeout), most_(most) {}

    /// Whether a query of this time repeats one that was kept; otherwise it is kept itself.
    bool repeats(Nanoseconds time, Transport transport, const Endpoint& source, Bytes message);

    /// Queries remembered now.
    [[nodiscard]] size_t size() const { return kept_.size(); }

private:
    void forget(Nanoseconds now);

    Nanoseconds timeout_;
    size_t most_;
    std::unordered_set<std::uint64_t> kept_;
    std::deque<std::pair<Nanoseconds, std::uint64_t>> order_;
};

} // namespace reprise::trace
