#pragma once
// Clients' own retransmits: UDP queries of the same source address, port, id and question (letter
// case counts). A query without a well-formed question is never one.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::trace {

/// Knows those within `timeout` of trace time after the query that was kept.
///
/// Memory: about 35 bytes a query kept in the last two `timeout`s, at most `most` of them; beyond
/// that the older half is forgotten.
class Retransmits {
public:
    explicit Retransmits(Nanoseconds timeout, size_t most = 1UL << 21U)
        : timeout_(timeout), most_(most) {}

    /// Whether a query of this time repeats one that was kept; otherwise it is kept itself.
    bool repeats(Nanoseconds time, Transport transport, const Endpoint& source, Bytes message);

    /// Queries remembered now.
    [[nodiscard]] size_t size() const { return young_.times.size() + old_.times.size(); }

private:
    using Keys = FlatIds<sizeof(std::uint64_t)>; ///< hashes of source, port, id and question

    struct Kept {
        Keys keys;
        std::vector<Nanoseconds> times; ///< by number
    };

    Nanoseconds timeout_;
    size_t most_;
    Nanoseconds since_ = 0; ///< where `young_` began
    Kept young_;
    Kept old_; ///< from before
};

} // namespace reprise::trace
