#include "proxy/delay/delay_error.hh"

#include "core/base/clock.hh"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace reprise::proxy {

void DelayError::add(Nanoseconds error) {
    const Nanoseconds value = std::abs(error);
    ++buckets_.at(bucket_of(static_cast<std::uint64_t>(value)));
    ++packets_;
    max_ = std::max(max_, value);
}

Nanoseconds DelayError::quantile(double share) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(packets_)));
    std::uint64_t seen = 0;
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        seen += buckets_.at(bucket);
        if (seen >= std::max<std::uint64_t>(rank, 1)) {
            return std::min(static_cast<Nanoseconds>(upper_end(bucket)), max_);
        }
    }
    return 0;
}

size_t DelayError::bucket_of(std::uint64_t value) {
    if (value < std::uint64_t{2} * kSteps) {
        return value;
    }
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 6;
    return size_t{kSteps} * shift + (value >> shift);
}

std::uint64_t DelayError::upper_end(size_t bucket) {
    if (bucket < size_t{2} * kSteps) {
        return bucket;
    }
    const size_t shift = bucket / kSteps - 1;
    return ((bucket - kSteps * shift + 1) << shift) - 1;
}

} // namespace reprise::proxy
