#include "querier/replayer.hh"

#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/in_flight.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/schedule/waiter.hh"
#include "querier/sender.hh"

#include <algorithm>

namespace reprise::querier {
namespace {

/// Keys of ended queries are remembered for the timeout once more, at least for so long.
constexpr Nanoseconds kShortestLinger = 5 * kSecond;

} // namespace

Replayer::Replayer(Network& network, const ReplayOptions& options, Results& results)
    : options_(options),
      queries_(options.credit.records + 2 * options.in_flight + Carrier::kMostStaged),
      matcher_(queries_, options.in_flight, std::max(options.timeout, kShortestLinger)),
      resources_(options.descriptors), parts_{.network = network,
                                              .resources = resources_,
                                              .queries = queries_,
                                              .matcher = matcher_,
                                              .stamps = stamps_,
                                              .statistics = statistics_},
      outbox_(options_, queries_, statistics_),
      in_flight_(parts_, options_, results, outbox_, carriers_),
      carriers_(options_, {parts_, in_flight_}), waiter_(options.waiter),
      sender_(options_, parts_, outbox_, in_flight_, carriers_, waiter_) {
    if (options_.hedge_after > 0) {
        resources_.most_kept /= 2; // copies for peers are kept as well
    }
}

void Replayer::begin_batch(const ClockPair& pair) {
    in_flight_.look(pair.monotonic);
    stamps_.sample(pair);
    statistics_.clock_steps = stamps_.steps();
}

void Replayer::expire(Nanoseconds now) {
    in_flight_.expire(now);
    in_flight_.hedge(now);
    for (const auto& carrier : carriers_.all()) {
        carrier->tidy(now);
    }
}

Nanoseconds Replayer::next_wake(Nanoseconds now) {
    Nanoseconds wake = std::min(sender_.next_send(now), in_flight_.next_wake());
    for (const auto& carrier : carriers_.all()) {
        wake = std::min(wake, carrier->next_wake(now));
    }
    return wake;
}

const Statistics& Replayer::statistics() {
    statistics_.received = outbox_.backlog().received();
    return statistics_;
}

void Replayer::abort() {
    const auto skip_held = [this] { // the end of one may let go the next of its source
        for (auto next = outbox_.take_held(); next != kNone; next = outbox_.take_held()) {
            in_flight_.skip(next, SkipReason::kAborted);
        }
    };
    skip_held();
    sender_.skip_backlog(SkipReason::kAborted);
    in_flight_.end_all(skip_held);
}

} // namespace reprise::querier
