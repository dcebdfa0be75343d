#include "core/base/histogram.hh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace reprise {

namespace {

constexpr unsigned kPrecisionBits = 10;
constexpr std::uint64_t kHalf = 1ULL << kPrecisionBits;
constexpr std::uint64_t kExact = 2 * kHalf;
constexpr size_t kBuckets = kExact + (63 - kPrecisionBits) * kHalf;

/// Values from kExact on share a bucket where their upper 11 bits agree.
size_t bucket_of(std::uint64_t value) {
    if (value < kExact) {
        return value;
    }
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - kPrecisionBits - 1;
    return kExact + (shift - 1) * kHalf + ((value >> shift) - kHalf);
}

std::int64_t middle_of(size_t bucket) {
    if (bucket < kExact) {
        return static_cast<std::int64_t>(bucket);
    }
    const size_t shift = (bucket - kExact) / kHalf + 1;
    const std::uint64_t low = (kHalf + (bucket - kExact) % kHalf) << shift;
    return static_cast<std::int64_t>(low + (std::uint64_t{1} << (shift - 1)));
}

} // namespace

Histogram::Histogram() : buckets_(kBuckets) {}

void Histogram::add(std::int64_t value) {
    ++buckets_[bucket_of(static_cast<std::uint64_t>(std::max<std::int64_t>(value, 0)))];
    min_ = count_ == 0 ? value : std::min(min_, value);
    max_ = count_ == 0 ? value : std::max(max_, value);
    ++count_;
    const double distance = static_cast<double>(value) - mean_;
    mean_ += distance / static_cast<double>(count_);
    squares_ += distance * (static_cast<double>(value) - mean_);
}

double Histogram::standard_deviation() const {
    return count_ < 2 ? 0 : std::sqrt(squares_ / static_cast<double>(count_ - 1));
}

// A share as 0.07 is a little more than it says; of 100 values it is the 7th.
std::int64_t Histogram::quantile(double share) const {
    const double rank = std::ceil(share * static_cast<double>(count_) - 1e-9);
    const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(rank));
    if (wanted >= count_) {
        return max_;
    }
    std::uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
        seen += buckets_[i];
        if (seen >= wanted) {
            return std::clamp(middle_of(i), min_, max_);
        }
    }
    return max_;
}

} // namespace reprise
