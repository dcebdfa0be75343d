// transport and class: what a mix chooses for a source, whose queries are all treated alike.

#include "core/base/text.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/values.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

constexpr std::uint64_t kMixUse = 0x7a05;
constexpr size_t kTransportCount = 6;

std::uint8_t bit_of(Transport transport) {
    return static_cast<std::uint8_t>(1U << static_cast<unsigned>(transport));
}

/// Whether the trace's connections mean something to queries of this transport.
bool has_connections(Transport transport) {
    return transport == Transport::kTcp || transport == Transport::kTls;
}

std::vector<Weighted> read_mix(Arguments& arguments) {
    auto mix = get_mix(arguments, "to");
    if (mix.empty()) {
        arguments.fail_lacking("needs to=, one of udp, tcp, tls, stateless-tcp, or a mix as "
                               "udp:90,tcp:10");
    }
    for (const Weighted& entry : mix) { // transports whose effect is seen in a replay
        arguments.demand_word("to", entry.value, {"udp", "tcp", "tls", "stateless-tcp"});
    }
    return mix;
}

class TransportRule : public Rule {
public:
    TransportRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kBySource, true)), choice_({1.0}),
          key_(mixed_seed(settings.seed, kMixUse)) {
        std::vector<double> weights;
        for (const Weighted& entry : read_mix(arguments)) {
            targets_.push_back(transport_value(arguments, "to", entry.value));
            weights.push_back(entry.weight);
        }
        choice_ = StickyChoice(weights);
        for (size_t value = 0; value < kTransportCount; ++value) {
            to_.at(value) =
                &rare_count("to_" + std::string(transport_name(static_cast<Transport>(value))));
        }
        if (!settings.again &&
            std::ranges::find(targets_, Transport::kStatelessTcp) != targets_.end()) {
            spdlog::warn("event=stateless_tcp note=\"this is the clients' side; the server's is "
                         "server.front of the experiment that replays the trace\"");
        }
    }

    void apply(Batch& batch) override {
        Rule::apply(batch);
        for (; !extra_.empty(); extra_.pop_back()) {
            const auto& [place, query] = extra_.back();
            batch.queries.insert(batch.queries.begin() + static_cast<std::ptrdiff_t>(place), query);
        }
    }

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        return move(query, targets_[choice_.draw(source_key(query.source.address, key_))]);
    }

    Outcome leave(Query& query) override { return move(query, query.transport); }

    // Connections are the trace's own. TLS takes over TCP's; a query that comes to TCP or leaves it
    // has none any more, and the replay gives it its source's.
    Outcome move(Query& query, Transport to) {
        const bool same = to == query.transport;
        const bool stays = same || (has_connections(to) && has_connections(query.transport));
        if (query.is_close()) {
            return move_close(query, stays ? bit_of(to) : std::uint8_t{0});
        }
        const std::uint64_t connection = query.connection;
        if (!same) {
            query.connection = stays ? connection : 0;
            query.transport = to;
            ++*to_.at(static_cast<size_t>(to));
        }
        if (!selector().same_for_connection()) {
            choices_.add(query.source, connection,
                         query.connection != 0 ? bit_of(to) : std::uint8_t{0});
        }
        return same ? Outcome::kSame : Outcome::kChanged;
    }

    // A close for each transport that the connection's queries are on now: usually one. `choice`
    // are the transports where no query of it is known.
    Outcome move_close(Query& query, std::uint8_t choice) {
        if (!selector().same_for_connection()) {
            choice = choices_.take(query.source, query.connection).value_or(choice);
        }
        bool kept = false;
        for (size_t value = 0; value < kTransportCount; ++value) {
            const auto transport = static_cast<Transport>(value);
            if ((choice & bit_of(transport)) == 0) {
                continue;
            }
            if (kept) {
                extra_.emplace_back(place() + 1, query).second.transport = transport;
            } else {
                query.transport = transport;
            }
            kept = true;
        }
        closes_dropped_ += kept ? 0U : 1U;
        return kept ? Outcome::kSame : Outcome::kDropped;
    }

    std::vector<Transport> targets_;
    StickyChoice choice_;
    std::uint64_t key_;
    ConnectionChoices choices_; ///< transports of the connection's queries that are still on it
    std::vector<std::pair<size_t, Query>> extra_; ///< closes to insert, with their places
    std::uint64_t& closes_dropped_ = rare_count("closes_dropped");
    std::array<std::uint64_t*, kTransportCount> to_{}; ///< changed, by the new transport
};

} // namespace

RuleKind transport_kind() {
    return {.name = "transport",
            .first_key = "to",
            .help = "Transport: to=udp, tcp, tls or stateless-tcp, or a mix as to=udp:90,tcp:10, "
                    "which sticks to a source; share= is by source",
            .make = make<TransportRule>,
            .sets = {"to"}};
}

namespace {

// Classes of sources for the delay line and the queriers: round trip and idle time.

constexpr std::uint64_t kRttUse = 0xc1a551;
constexpr std::uint64_t kIdleUse = 0xc1a552;

/// A mix of classes, or none.
class ClassMix {
public:
    ClassMix(Arguments& arguments, std::string_view key, const char* unit, std::uint64_t seed)
        : choice_({1.0}), key_(seed) {
        std::vector<double> weights;
        for (const Weighted& entry : get_mix(arguments, key)) {
            const auto value = parse_number<std::uint16_t>(entry.value).value_or(0);
            if (value == 0) {
                arguments.fail(key,
                               fmt::format("\"{}\" is not a whole number of {} from 1 to 65535",
                                           entry.value, unit));
            }
            classes_.push_back(value);
            weights.push_back(entry.weight);
        }
        if (!weights.empty()) {
            choice_ = StickyChoice(weights);
        }
    }

    [[nodiscard]] bool empty() const { return classes_.empty(); }

    /// Sets the source's class; whether it was another.
    bool set(const Query& query, std::uint16_t& where) const {
        if (classes_.empty()) {
            return false;
        }
        const std::uint16_t before = where;
        where = classes_[choice_.draw(source_key(query.source.address, key_))];
        return where != before;
    }

private:
    std::vector<std::uint16_t> classes_;
    StickyChoice choice_;
    std::uint64_t key_;
};

class ClassRule : public Rule {
public:
    ClassRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kBySource, true)),
          rtt_(arguments, "rtt", "ms", mixed_seed(settings.seed, kRttUse)),
          idle_(arguments, "idle", "s", mixed_seed(settings.seed, kIdleUse)) {
        if (rtt_.empty() && idle_.empty()) {
            arguments.fail_lacking(
                "needs rtt= (ms) or idle= (s), a number or a mix as 20:50,80:30");
        }
    }

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        const bool rtt = rtt_.set(query, query.rtt_class);
        const bool idle = idle_.set(query, query.idle_class);
        return rtt || idle ? Outcome::kChanged : Outcome::kSame;
    }

    ClassMix rtt_;
    ClassMix idle_;
};

} // namespace

RuleKind class_kind() {
    return {.name = "class",
            .first_key = "rtt",
            .help =
                "Classes of sources: idle= seconds a connection stays open unused, rtt= round trip "
                "in ms (carried along, for rtt.by of an experiment); numbers or mixes as "
                "idle=5:50,20:30, which stick to a source; share= is by source",
            .make = make<ClassRule>,
            .sets = {"rtt", "idle"}};
}

} // namespace reprise::rules
