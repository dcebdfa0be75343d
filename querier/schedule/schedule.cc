#include "querier/schedule/schedule.hh"

#include "core/base/clock.hh"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kInitial = 1024;

} // namespace

Schedule::Schedule() : ring_(kInitial) {}

void Schedule::push(Nanoseconds time, std::uint64_t what) {
    const Item item{.time = time, .arrival = arrivals_++, .what = what};
    const size_t mask = ring_.size() - 1;
    if (count_ > 0 && time < ring_[(first_ + count_ - 1) & mask].time) {
        heap_.push(item);
        ++stragglers_;
        return;
    }
    if (count_ == ring_.size()) {
        grow();
    }
    ring_[(first_ + count_) & (ring_.size() - 1)] = item;
    ++count_;
}

void Schedule::grow() {
    std::vector<Item> bigger(ring_.size() * 2);
    for (size_t i = 0; i < count_; ++i) {
        bigger[i] = ring_[(first_ + i) & (ring_.size() - 1)];
    }
    ring_ = std::move(bigger);
    first_ = 0;
}

bool Schedule::heap_first() const {
    return !heap_.empty() && (count_ == 0 || Later{}(ring_[first_], heap_.top()));
}

const Schedule::Item& Schedule::front() const { return heap_first() ? heap_.top() : ring_[first_]; }

void Schedule::pop() {
    if (heap_first()) {
        heap_.pop();
        return;
    }
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
}

} // namespace reprise::querier
