#include "querier/stamps.hh"

#include "core/clock.hh"

#include <cstdlib>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kStep = 500 * kMicrosecond;
/// The kernel slews by at most 500 ppm, twice that under adjtimex's tick: 1/1000 of the time
/// between batches.
constexpr Nanoseconds kDriftDivisor = 1000;

} // namespace

void StampClock::sample(const ClockPair& pair) {
    const Nanoseconds jump = std::abs(pair.offset() - pair_.offset());
    const Nanoseconds drift = (pair.monotonic - pair_.monotonic) / kDriftDivisor;
    stepped_ = sampled_ && jump > kStep + drift;
    steps_ += stepped_ ? 1 : 0;
    sampled_ = true;
    pair_ = pair;
}

} // namespace reprise::querier
