#pragma once
// Clients' retransmits in a trace.

#include "core/clock.hh"
#include "core/trace/reader.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

namespace reprise::mutator {

/// Counts UDP queries of the same source address, port, id and question within 5 s of trace time
/// after a query that was none itself: what `--collapse-retransmits` would leave out. Memory: about
/// 80 bytes a query of the last 5 s, of at most 1,048,576 queries.
class RetransmitCounter {
public:
    static constexpr Nanoseconds kWindow = 5 * kSecond;

    /// Takes queries, whatever their transport.
    void add(const trace::Message& message);

    [[nodiscard]] std::uint64_t count() const { return count_; }

private:
    void forget(Nanoseconds now);

    std::unordered_map<std::uint64_t, Nanoseconds> kept_; ///< hash of the key -> when
    std::deque<std::pair<Nanoseconds, std::uint64_t>> order_;
    std::uint64_t count_ = 0;
};

} // namespace reprise::mutator
