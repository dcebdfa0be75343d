#include "mutator/rules/time/arrival_rule.hh"

#include "core/base/clock.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/time_arithmetic.hh"

#include <algorithm>

namespace reprise::mutator {

void ArrivalRule::start(const Item& item) {
    started_ = true;
    first_ = current_ = old_ = std::max<Nanoseconds>(item.time, 0);
    next_ = added(first_, arrivals_(0));
}

Nanoseconds ArrivalRule::next_time(const Item& item) {
    if (item.is_close()) {
        const Nanoseconds behind = std::max<Nanoseconds>(item.time - old_, 0);
        return std::max(current_, std::min(added(current_, behind), next_));
    }
    const Nanoseconds time =
        in_range(next_, "gap, poisson or profile", "give a smaller gap or a greater rate");
    next_ = added(first_, arrivals_(++queries_));
    return time;
}

void ArrivalRule::apply(Batch& batch) {
    for (Item& item : batch.items) {
        if (!started_) {
            start(item);
        }
        current_ = next_time(item);
        old_ = item.time;
        changed_ += !item.is_close() && current_ != item.time ? 1U : 0U;
        item.time = current_;
    }
}

RuleCounts ArrivalRule::counts() const {
    return {{"seen", queries_}, {"matched", queries_}, {"changed", changed_}};
}

} // namespace reprise::mutator
