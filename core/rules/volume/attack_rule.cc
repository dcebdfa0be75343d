// attack: an attack mixed into the trace.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/values.hh"
#include "core/rules/source/source_addresses.hh"
#include "core/trace/forms/message_source.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

constexpr size_t kLabel = 12; ///< random characters: 36^12 names
constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::uint64_t kLowestPort = 1024;
constexpr std::uint64_t kPoolUse = 4;                    ///< of the seed
constexpr std::string_view kAttackers = "100.64.0.0/10"; ///< shared address space (RFC 6598)
constexpr size_t kLongestSuffix = 255 - 1 - kLabel;      ///< leaves room for the random label

Nanoseconds seconds_of(Arguments& arguments, std::string_view key, std::string_view fallback) {
    const auto value = parse_seconds(arguments.get_text(key).value_or(std::string(fallback)));
    if (!value) {
        arguments.fail(key, "must be seconds with at most 9 decimals, like 30 or 0.5");
    }
    return *value;
}

double rate_of(Arguments& arguments) {
    if (!arguments.takes_all()) {
        arguments.fail({}, "adds queries and takes no share and no where; leave them out");
    }
    const auto rate = arguments.get_number("rate", 1e-3, 1e8);
    if (!rate || !arguments.has("for")) {
        arguments.fail({}, "needs rate= in queries/s and for= in seconds");
    }
    return *rate;
}

AddressPool attackers(Arguments& arguments, std::uint64_t seed) {
    const auto prefixes = get_prefixes(arguments, "prefix");
    const Prefix prefix = prefixes.empty() ? known_prefix(kAttackers) : prefixes.front();
    if (prefixes.size() > 1 || prefix.free_bits() < 2) {
        arguments.fail("prefix", "needs one prefix, with at least 2 bits left free");
    }
    return {prefix, mixed_seed(seed, kPoolUse)};
}

/// Mixes an attack into the trace: queries made up, merged by time. It ends with the trace at the
/// latest.
class AttackRule : public PiecewiseRule {
public:
    AttackRule(Arguments& arguments, const RuleSettings& settings);

private:
    bool work(Query& query, Batch& batch) override;
    Name read_name(Arguments& arguments);
    void start(const Query& first);
    bool add_until(Nanoseconds time, Batch& batch);
    Query make(Batch& batch);

    double rate_; ///< queries/s
    AddressPool pool_;
    Nanoseconds at_;     ///< from the first query
    Nanoseconds length_; ///< of the attack
    Arrivals arrivals_;
    std::uint64_t sources_;
    bool fixed_ = true; ///< no random label before the name
    Transport transport_ = Transport::kUdp;
    std::vector<std::uint8_t> query_; ///< without id and random label
    Random random_;
    Endpoint destination_; ///< of the trace's first query of the attack's family, or documentation
    bool found_destination_ = false;
    bool started_ = false;
    Nanoseconds first_ = 0;
    double offset_ = 0; ///< of the next attack query from the attack's beginning, ns
    std::uint64_t& number_ = count("added");
};

AttackRule::AttackRule(Arguments& arguments, const RuleSettings& settings)
    : rate_(rate_of(arguments)), pool_(attackers(arguments, settings.seed)),
      at_(seconds_of(arguments, "at", "0")), length_(seconds_of(arguments, "for", "")),
      arrivals_(arguments.get_switch("poisson").value_or(true) ? Arrival::kPoisson
                                                               : Arrival::kFixed,
                rate_),
      sources_(arguments.get_integer("sources", 1, 1'000'000'000).value_or(1000)),
      random_(settings.seed),
      destination_{trace::example_server(!pool_.prefix().address.is_v4()), kDnsPort} {
    if (sources_ > pool_.size()) {
        arguments.fail("sources", fmt::format("has {} addresses, but prefix has room for {}",
                                              sources_, pool_.size()));
    }
    const Name name = read_name(arguments);
    QueryShape shape{.type = 1};
    if (const auto type = arguments.get_text("type")) {
        shape.type = type_value(arguments, "type", *type);
    }
    if (const auto transport = arguments.get_text("transport")) {
        transport_ = transport_value(arguments, "transport", *transport);
    }
    shape.recursion_desired = arguments.get_switch("rd").value_or(false);
    build_query(query_, shape, name.bytes());
}

/// The name, with room for a random label before it unless it is fixed.
Name AttackRule::read_name(Arguments& arguments) {
    fixed_ = arguments.has("fixed");
    const auto names = get_names(arguments, fixed_ ? "fixed" : "name");
    if (names.size() != 1 || (fixed_ && arguments.has("name"))) {
        arguments.fail({}, "needs either name=SUFFIX, for random names below it, or fixed=NAME");
    }
    const Bytes suffix = names.front().bytes();
    if (!fixed_ && suffix.size() > kLongestSuffix) {
        arguments.fail("name", "is too long for a label before it; give at most 242 bytes");
    }
    Name name;
    if (!fixed_) {
        name.add_label(std::string(kLabel, ' '));
    }
    name.add(suffix);
    return name;
}

void AttackRule::start(const Query& first) {
    started_ = true;
    first_ = added(std::max<Nanoseconds>(first.time, 0), at_);
    offset_ = arrivals_.next(random_);
    if (arrivals_.kind() == Arrival::kPoisson) { // it begins with a gap
        offset_ = arrivals_.next(random_);
    }
}

Query AttackRule::make(Batch& batch) {
    Query query;
    query.time = added(first_, offset_);
    query.source = {pool_.at(random_.below(sources_)),
                    static_cast<std::uint16_t>(random_.between(kLowestPort, 65'535))};
    query.destination = destination_;
    query.transport = transport_;
    const std::span<std::uint8_t> message = batch.copy(query_);
    store16(message.data(), static_cast<unsigned>(random_.below(65'536)));
    for (size_t i = 1; !fixed_ && i <= kLabel; ++i) {
        message[kDnsHeaderSize + i] =
            static_cast<std::uint8_t>(kCharacters[random_.below(kCharacters.size())]);
    }
    query.message = message;
    return query;
}

/// False where the batch is full before.
bool AttackRule::add_until(Nanoseconds time, Batch& batch) {
    while (offset_ < static_cast<double>(length_) && added(first_, offset_) <= time) {
        if (full(batch)) {
            return false;
        }
        put(make(batch), batch);
        ++number_;
        offset_ = arrivals_.next(random_);
    }
    return !full(batch);
}

bool AttackRule::work(Query& query, Batch& batch) {
    if (!started_) {
        start(query);
    }
    if (!found_destination_ && query.destination.address.family == destination_.address.family) {
        destination_ = query.destination;
        found_destination_ = true;
    }
    if (!add_until(query.time, batch)) {
        return false;
    }
    takes(query);
    pass(query, batch);
    return true;
}

} // namespace

RuleKind attack_kind() {
    return {
        .name = "attack",
        .first_key = "rate",
        .help =
            "mixes in rate= queries/s from at= seconds (0) for= seconds, at most to the trace's "
            "end: sources= (1000) out of prefix= (100.64.0.0/10), name=SUFFIX for random names "
            "below it or fixed=NAME, type= (A), transport= (udp), rd=on, poisson=off (on)",
        .make = make<AttackRule>,
        .effect = Effect::kSources};
}

} // namespace reprise::rules
