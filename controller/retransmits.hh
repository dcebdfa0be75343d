#pragma once
#include "core/base/clock.hh"
#include "core/trace/reader.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

namespace reprise::controller {

/// Knows a client's own retransmits: UDP queries of the same source address, port, id and question
/// (letter case counts) within `timeout` of trace time after the query that was kept. A query
/// without a well-formed question is never one.
///
/// Memory: about 80 bytes a query kept in the last `timeout`, at most `most` of them; beyond that
/// the oldest are forgotten.
class Retransmits {
public:
    explicit Retransmits(Nanoseconds timeout, size_t most = 1UL << 20U)
        : timeout_(timeout), most_(most) {}

    /// Whether the message repeats one that was kept; otherwise it is kept itself.
    bool repeats(const trace::Message& message);

    /// Queries remembered now.
    [[nodiscard]] size_t size() const { return kept_.size(); }

private:
    void forget(Nanoseconds now);

    Nanoseconds timeout_;
    size_t most_;
    std::unordered_map<std::uint64_t, Nanoseconds> kept_; ///< hash of the key -> when
    std::deque<std::pair<Nanoseconds, std::uint64_t>> order_;
};

} // namespace reprise::controller
