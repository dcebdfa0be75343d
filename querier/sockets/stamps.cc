#include "querier/sockets/stamps.hh"

#include "core/base/clock.hh"

#include <cstdlib>

namespace reprise::querier {
namespace {

constexpr Nanoseconds kStep = 500 * kMicrosecond;
/// The kernel slews by at most 500 ppm, twice that under adjtimex's tick: 1/1000 of the time
/// between batches.
constexpr Nanoseconds kDriftDivisor = 1000;
/// Packets stamped before a step may wait so long in a socket until they are read.
constexpr Nanoseconds kUnsure = 100 * kMillisecond;

} // namespace

void StampClock::sample(const ClockPair& pair) {
    const Nanoseconds jump = std::abs(pair.offset() - pair_.offset());
    const Nanoseconds drift = (pair.monotonic - pair_.monotonic) / kDriftDivisor;
    if (sampled_ && jump > kStep + drift) {
        ++steps_;
        unsure_until_ = pair.monotonic + kUnsure;
    }
    stepped_ = pair.monotonic < unsure_until_;
    sampled_ = true;
    pair_ = pair;
}

} // namespace reprise::querier
