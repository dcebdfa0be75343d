#include "mutator/info/info_rate.hh"

#include "core/base/clock.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::mutator {

void RateBins::add(Nanoseconds time) {
    if (queries_.empty()) {
        start_ = time;
    }
    // Unsigned, so that no pair of times overflows.
    const std::uint64_t since =
        time > start_ ? static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(start_) : 0;
    while (since / width_ >= kMost) {
        merge();
    }
    const size_t bin = since / width_;
    queries_.resize(std::max(queries_.size(), bin + 1));
    ++queries_[bin];
}

void RateBins::merge() {
    width_ *= 2;
    const size_t bins = (queries_.size() + 1) / 2;
    for (size_t i = 0; i < bins; ++i) {
        const std::uint64_t second = 2 * i + 1 < queries_.size() ? queries_[2 * i + 1] : 0;
        queries_[i] = queries_[2 * i] + second;
    }
    queries_.resize(bins);
}

} // namespace reprise::mutator
