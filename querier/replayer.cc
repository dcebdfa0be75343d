#include "querier/replayer.hh"

#include "core/base/clock.hh"
#include "querier/in_flight.hh"
#include "querier/network/network.hh"
#include "querier/network/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/sockets/carrier.hh"

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
      resources_(options.descriptors), outbox_(options_, queries_, statistics_),
      in_flight_(parts(network, results)), carriers_(options_, {.network = network,
                                                                .resources = resources_,
                                                                .queries = queries_,
                                                                .matcher = matcher_,
                                                                .stamps = stamps_,
                                                                .statistics = statistics_,
                                                                .events = in_flight_}),
      sender_(parts(network, results), in_flight_) {}

ReplayParts Replayer::parts(Network& network, Results& results) {
    return {.clock = network.clock(),
            .options = options_,
            .queries = queries_,
            .matcher = matcher_,
            .stamps = stamps_,
            .resources = resources_,
            .statistics = statistics_,
            .results = results,
            .outbox = outbox_,
            .carriers = carriers_};
}

void Replayer::begin_batch(const ClockPair& pair) {
    in_flight_.look(pair.monotonic);
    stamps_.sample(pair);
    statistics_.clock_steps = stamps_.steps();
}

void Replayer::expire(Nanoseconds now) {
    in_flight_.expire(now);
    in_flight_.hedge(now);
    carriers_.tidy(now);
}

Nanoseconds Replayer::next_wake(Nanoseconds now) {
    return std::min({sender_.next_wake(now), in_flight_.next_wake(), carriers_.next_wake(now)});
}

const Statistics& Replayer::statistics() {
    statistics_.received = outbox_.backlog().received();
    return statistics_;
}

} // namespace reprise::querier
