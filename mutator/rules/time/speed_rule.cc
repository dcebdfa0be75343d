#include "mutator/rules/time/speed_rule.hh"

#include "core/base/clock.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/time_arithmetic.hh"

#include <algorithm>
#include <cstdint>

namespace reprise::mutator {
namespace {

/// Moves by a shift: one that does not fit the trace is refused.
Nanoseconds shifted(Nanoseconds time, Nanoseconds shift) {
    time = std::max<Nanoseconds>(time, 0);
    return in_range(shift < -time ? -1 : added(time, shift), "shift",
                    "give a seconds= nearer to 0");
}

} // namespace

// The sums are whole numbers, so that no rounding adds up over the trace.
Nanoseconds SpeedRule::next_time(const Item& item) {
    if (!started_) {
        started_ = true;
        first_ = old_ = item.time;
    }
    taken_ = item.is_close() ? taken_ : selector_.takes(item);
    (taken_ ? fast_ : kept_) += item.time - old_;
    old_ = item.time;
    return in_range(
        added(std::max<Nanoseconds>(first_ + kept_, 0), static_cast<double>(fast_) / factor_),
        "speed", "give a greater factor=");
}

void SpeedRule::apply(Batch& batch) {
    for (Item& item : batch.items) {
        const Nanoseconds time = next_time(item);
        changed_ += !item.is_close() && time != item.time ? 1U : 0U;
        item.time = time;
    }
}

RuleCounts SpeedRule::counts() const {
    return {{"seen", selector_.seen()}, {"matched", selector_.matched()}, {"changed", changed_}};
}

void ShiftRule::apply(Batch& batch) {
    for (Item& item : batch.items) {
        if (!item.is_close()) {
            selector_.takes(item);
        }
        const Nanoseconds time = shifted(item.time, shift_);
        changed_ += !item.is_close() && time != item.time ? 1U : 0U;
        item.time = time;
    }
}

RuleCounts ShiftRule::counts() const {
    return {{"seen", selector_.seen()}, {"matched", selector_.matched()}, {"changed", changed_}};
}

Nanoseconds DelayRule::delay(const Item& item) {
    if (item.is_close()) {
        return std::max<Nanoseconds>(high_, 0);
    }
    if (!selector_.takes(item)) {
        return 0;
    }
    const auto width = static_cast<std::uint64_t>(high_ - low_);
    return low_ + static_cast<Nanoseconds>(random_.between(0, width));
}

void DelayRule::apply(Batch& batch) {
    incoming_.swap(batch.items);
    for (const Item& item : incoming_) {
        const Nanoseconds moved = delay(item);
        const Nanoseconds time = low_ == high_ ? shifted(item.time, moved)
                                               : added(std::max<Nanoseconds>(item.time, 0), moved);
        changed_ += !item.is_close() && time != item.time ? 1U : 0U;
        held_.put(item, time);
        newest_ = std::max(newest_, item.time);
        held_.release(newest_ + std::min<Nanoseconds>(low_, 0), batch);
    }
    incoming_.clear();
}

void DelayRule::finish(Batch& batch) { held_.release(kLastTime, batch); }

RuleCounts DelayRule::counts() const {
    return {{"seen", selector_.seen()}, {"matched", selector_.matched()}, {"changed", changed_}};
}

} // namespace reprise::mutator
