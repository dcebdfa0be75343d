// transport, class, keep, drop and remap: rules that choose by source, and which queries stay.

#include "core/base/flat_ids.hh"
#include "core/base/text.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/trace/forms/message_source.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {
namespace {

// transport: what a mix chooses for a source, whose queries are all treated alike.

constexpr std::uint64_t kMixUse = 0x7a05; ///< of the seed; other than the selector's

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
        arguments.fail_lacking(fmt::format("needs to=, one of {}, or a mix as udp:90,tcp:10",
                                           joined(transport_names(true), ", ")));
    }
    for (const Weighted& entry : mix) { // transports whose effect is seen in a replay
        arguments.demand_word("to", entry.value, transport_names(true));
    }
    return mix;
}

class TransportRule : public Rule {
public:
    TransportRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kBySource, true)),
          targets_(
              read_mix(arguments), mixed_seed(settings.seed, kMixUse),
              [&](const std::string& text) { return transport_value(arguments, "to", text); }) {
        for (const Transport one : kTransports) {
            to_.at(static_cast<size_t>(one)) =
                &rare_count("to_" + std::string(transport_name(one)));
        }
        if (!settings.again && std::ranges::find(targets_.values(), Transport::kStatelessTcp) !=
                                   targets_.values().end()) {
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
        return move(query, targets_.draw(query.source.address));
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
        for (const Transport transport : kTransports) {
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

    StickyMix<Transport> targets_;
    ConnectionChoices choices_; ///< transports of the connection's queries that are still on it
    std::vector<std::pair<size_t, Query>> extra_; ///< closes to insert, with their places
    std::uint64_t& closes_dropped_ = rare_count("closes_dropped");
    std::array<std::uint64_t*, kTransports.size()> to_{}; ///< changed, by the new transport
};

// class: classes of sources for the delay line and the queriers: round trip and idle time.

constexpr std::uint64_t kRttUse = 0xc1a551;
constexpr std::uint64_t kIdleUse = 0xc1a552;

/// Empty where the key is not there.
StickyMix<std::uint16_t> read_classes(Arguments& arguments, std::string_view key, const char* unit,
                                      std::uint64_t seed) {
    return {get_mix(arguments, key), seed, [&](const std::string& text) {
                const auto value = parse_number<std::uint16_t>(text).value_or(0);
                if (value == 0) {
                    arguments.fail(key, fmt::format("\"{}\" is not a whole number of {} from 1 to "
                                                    "65535",
                                                    text, unit));
                }
                return value;
            }};
}

class ClassRule : public Rule {
public:
    ClassRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kBySource, true)),
          rtt_(read_classes(arguments, "rtt", "ms", mixed_seed(settings.seed, kRttUse))),
          idle_(read_classes(arguments, "idle", "s", mixed_seed(settings.seed, kIdleUse))) {
        if (rtt_.values().empty() && idle_.values().empty()) {
            arguments.fail_lacking(
                "needs rtt= (ms) or idle= (s), a number or a mix as 20:50,80:30");
        }
    }

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        const Outcome rtt = set_class(query.rtt_class, rtt_, query.source.address);
        const Outcome idle = set_class(query.idle_class, idle_, query.source.address);
        return rtt == Outcome::kSame ? idle : rtt;
    }

    static Outcome set_class(std::uint16_t& part, const StickyMix<std::uint16_t>& mix,
                             const IpAddress& source) {
        return mix.values().empty() ? Outcome::kSame : set(part, mix.draw(source));
    }

    StickyMix<std::uint16_t> rtt_;
    StickyMix<std::uint16_t> idle_;
};

// keep and drop: which queries stay.

/// Sources that no query can come from over the Internet: this network, private use, loopback,
/// link-local, multicast and reserved (RFC 6890, RFC 4193).
constexpr std::array<std::string_view, 12> kSpoofed{
    "0.0.0.0/8",   "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
    "224.0.0.0/3", "::/128",     "::1/128",     "fe80::/10",      "fc00::/7",      "ff00::/8"};

/// Both rules, by which part of the queries goes.
template <bool kDrops> class SieveRule : public Rule {
public:
    SieveRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(selector_of(arguments, settings)) {}

private:
    static Selector selector_of(Arguments& arguments, const RuleSettings& settings) {
        const Closes closes = kDrops ? Closes::kAll : Closes::kAny;
        Selector selector(arguments, settings.seed, settings.sees_closes ? closes : Closes::kNone);
        if (kDrops && arguments.get_switch("spoofed").value_or(false)) {
            std::vector<Prefix> sources;
            std::ranges::transform(kSpoofed, std::back_inserter(sources), known_prefix);
            selector.restrict_to(std::move(sources));
        } else if (arguments.takes_all()) {
            arguments.fail_lacking(kDrops
                                       ? "drops every query; give it share=, where. or spoofed=on"
                                       : "keeps every query; give it share= or where.");
        }
        return selector;
    }

    Outcome change(Query& query, Batch& /*batch*/) override {
        return kDrops ? drop(query) : Outcome::kSame;
    }

    Outcome leave(Query& query) override { return kDrops ? Outcome::kSame : drop(query); }

    Outcome drop(const Query& query) {
        ++(query.is_close() ? closes_dropped_ : dropped_);
        changed_ = dropped_;
        return Outcome::kDropped;
    }

    std::uint64_t& changed_ = count("changed");
    std::uint64_t& dropped_ = count("dropped");
    std::uint64_t& closes_dropped_ = rare_count("closes_dropped");
};

// remap: sources spread into a prefix of the experimenter's, one to one while it has room.

/// Most sources that are told apart by a table: 340 MB while it grows.
constexpr std::uint64_t kMostSources = 1UL << 22U;
constexpr std::uint64_t kSharedUse = 0x4e3a9;

/// One prefix and the sources that live in it by now.
class Home {
public:
    explicit Home(const Prefix& prefix)
        : prefix_(prefix), room_(room_of(prefix)), most_(std::min(room_, kMostSources)) {}

    [[nodiscard]] bool is_v4() const { return prefix_.address.is_v4(); }

    /// The source's new address. Sets `shared` where another source may have the same.
    IpAddress address_of(const IpAddress& source, std::uint64_t key, bool& shared) {
        const auto number = numbers_.size() < most_
                                ? std::optional(numbers_.find_or_add(source, numbers_.size()).first)
                                : numbers_.find(source);
        shared = !number;
        return at(number ? std::uint64_t{*number} : source_key(source, key) % room_);
    }

    [[nodiscard]] size_t sources() const { return numbers_.size(); }

private:
    // The first address of a subnet, and in IPv4 the last, are no host's.
    static std::uint64_t room_of(const Prefix& prefix) {
        const unsigned bits = std::min(prefix.free_bits(), 62U);
        const std::uint64_t reserved = prefix.address.is_v4() ? 2 : 1;
        return bits < 2 ? 1UL << bits : (1UL << bits) - reserved;
    }

    [[nodiscard]] IpAddress at(std::uint64_t number) const {
        return prefix_.host(number + (prefix_.free_bits() < 2 ? 0 : 1)).value_or(prefix_.address);
    }

    Prefix prefix_;
    std::uint64_t room_;
    std::uint64_t most_;
    AddressIds numbers_;
};

class RemapRule : public Rule {
public:
    RemapRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kAny, true)),
          key_(mixed_seed(settings.seed, kSharedUse)) {
        const auto prefixes = get_prefixes(arguments, "to");
        if (prefixes.empty()) {
            arguments.fail_lacking("needs to=, a prefix as 198.18.0.0/15, or one of each family");
        }
        for (const Prefix& prefix : prefixes) {
            homes_.emplace_back(prefix);
        }
        const bool alike = homes_.front().is_v4() == homes_.back().is_v4();
        if (homes_.size() > 1 && (alike || homes_.size() > 2)) {
            arguments.fail("to", "takes one prefix, or one IPv4 and one IPv6 prefix");
        }
    }

private:
    // Where only the other family has a prefix, the source changes its family and takes the
    // destination with it.
    Outcome change(Query& query, Batch& /*batch*/) override {
        const bool v4 = query.source.address.is_v4();
        Home& home = homes_.front().is_v4() == v4 ? homes_.front() : homes_.back();
        const size_t known = home.sources();
        bool shared = false;
        const IpAddress address = home.address_of(query.source.address, key_, shared);
        sources_ += home.sources() - known;
        const bool moves = home.is_v4() != v4;
        if (query.destination.address.is_v4() != home.is_v4()) {
            query.destination.address = trace::example_server(!home.is_v4());
        }
        if (!query.is_close()) {
            shared_ += shared ? 1U : 0U;
            family_changed_ += moves ? 1U : 0U;
        }
        return set(query.source.address, address);
    }

    std::uint64_t key_;
    std::vector<Home> homes_; ///< one, or one of each family
    std::uint64_t& sources_ = count("sources");
    std::uint64_t& shared_ = rare_count("shared");
    std::uint64_t& family_changed_ = rare_count("family_changed");
};

} // namespace

std::vector<RuleKind> source_rules() {
    auto names = transport_names(true);
    const std::string last = std::move(names.back());
    names.pop_back();
    return {{.name = "transport",
             .first_key = "to",
             .help = fmt::format("Transport: to={} or {}, or a mix as to=udp:90,tcp:10, which "
                                 "sticks to a source; share= is by source",
                                 joined(names, ", "), last),
             .make = make<TransportRule>,
             .sets = {"to"}},
            {.name = "class",
             .first_key = "rtt",
             .help = "Classes of sources: idle= seconds a connection stays open unused, rtt= round "
                     "trip in ms (carried along, for rtt.by of an experiment); numbers or mixes as "
                     "idle=5:50,20:30, which stick to a source; share= is by source",
             .make = make<ClassRule>,
             .sets = {"rtt", "idle"}},
            {.name = "keep",
             .first_key = "share",
             .help = "Keeps the queries that where. and share= choose, drops the others; by=source "
                     "thins by whole sources",
             .make = make<SieveRule<false>>},
            {.name = "drop",
             .first_key = "share",
             .help = "Drops the queries that where. and share= choose; spoofed=on: only those from "
                     "sources that cannot be real (private, loopback, link-local, multicast)",
             .make = make<SieveRule<true>>},
            {.name = "remap",
             .first_key = "to",
             .help =
                 "Gives sources addresses of a prefix, in order of appearance, one to one while "
                 "it has room: to=PREFIX or to=PREFIX4,PREFIX6; with one prefix sources of the "
                 "other family move into it; share= is by source",
             .make = make<RemapRule>,
             .effect = Effect::kSources}};
}

} // namespace reprise::rules
