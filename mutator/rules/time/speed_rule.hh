#pragma once
// Rules that move queries in time by what their old times say: speed, shift, jitter.

#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/time/reorder.hh"

#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::mutator {

/// Divides the gap before every query taken by `factor`; gaps before others stay. So the order is
/// kept whatever is taken, and the whole trace, or a span of it, runs faster or slower. The gap
/// before a close is that of the query before it.
class SpeedRule : public Rule {
public:
    SpeedRule(Selector selector, double factor) : selector_(std::move(selector)), factor_(factor) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds next_time(const Item& item);

    Selector selector_;
    double factor_;
    bool started_ = false;
    bool taken_ = false; ///< the last query
    Nanoseconds first_ = 0;
    Nanoseconds old_ = 0;  ///< of the last item
    Nanoseconds kept_ = 0; ///< sums of the gaps as they were: not taken
    Nanoseconds fast_ = 0; ///< and taken
    std::uint64_t changed_ = 0;
};

/// Moves all items by the same time.
class ShiftRule : public Rule {
public:
    ShiftRule(Selector selector, Nanoseconds shift)
        : selector_(std::move(selector)), shift_(shift) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Selector selector_;
    Nanoseconds shift_;
    std::uint64_t changed_ = 0;
};

/// Moves every query taken by a time drawn from [low, high], others not, and restores the order.
/// Closes move by the most that a query may, so that none comes before a query of its connection.
/// Holds the queries of up to high - low of trace time (or of |shift|, where some are not taken).
/// A query that would come before 1970 is moved to its begin; where low is high, that is an error.
class DelayRule : public Rule {
public:
    DelayRule(Selector selector, Nanoseconds low, Nanoseconds high, std::uint64_t seed)
        : selector_(std::move(selector)), low_(low), high_(high), random_(seed) {}

    void apply(Batch& batch) override;
    void finish(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds delay(const Item& item);

    Selector selector_;
    Nanoseconds low_;
    Nanoseconds high_;
    Random random_;
    Reorder held_;
    std::vector<Item> incoming_; ///< a batch's items while it is filled anew
    Nanoseconds newest_ = 0;     ///< old time
    std::uint64_t changed_ = 0;
};

} // namespace reprise::mutator
