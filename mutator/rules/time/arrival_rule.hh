#pragma once
// Rules that set the time of every query from its number alone: gap, poisson, profile.

#include "core/base/clock.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"

#include <cstdint>
#include <functional>
#include <utility>

namespace reprise::mutator {

/// Gives nanoseconds from the first query to query number 0, 1, 2, ...; they never fall.
using Arrivals = std::function<double(std::uint64_t number)>;

/// The first query keeps its time. The close of a connection keeps its place in the order: it comes
/// as long after the item before it as it did, but at the latest with the next query's arrival.
class ArrivalRule : public Rule {
public:
    explicit ArrivalRule(Arrivals arrivals) : arrivals_(std::move(arrivals)) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds next_time(const Item& item);
    void start(const Item& item);

    Arrivals arrivals_;
    std::uint64_t queries_ = 0;
    std::uint64_t changed_ = 0;
    Nanoseconds first_ = 0;
    Nanoseconds next_ = 0;    ///< of the next query
    Nanoseconds old_ = 0;     ///< time of the last item as it came
    Nanoseconds current_ = 0; ///< and as it is now
    bool started_ = false;
};

} // namespace reprise::mutator
