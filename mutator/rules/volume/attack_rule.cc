// attack: an attack mixed into the trace.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/prefix.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/trace/forms/query_source.hh"
#include "core/wire/query.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/source_key.hh"
#include "mutator/rules/engine/time_arithmetic.hh"
#include "mutator/rules/engine/values.hh"
#include "mutator/rules/source/source_addresses.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace reprise::mutator {
namespace {

constexpr size_t kLabel = 12; ///< random characters: 36^12 names
constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::uint64_t kLowestPort = 1024;
constexpr std::uint64_t kPoolUse = 4;                    ///< of the seed
constexpr std::string_view kAttackers = "100.64.0.0/10"; ///< shared address space (RFC 6598)
constexpr size_t kLongestSuffix = 255 - 1 - kLabel;      ///< leaves room for the random label

/// Mixes an attack into the trace: generated queries, merged by time. It ends with the trace at the
/// latest.
class AttackRule : public PiecewiseRule {
public:
    struct Settings {
        double rate = 1000; ///< queries/s
        Nanoseconds at = 0; ///< from the first query
        Nanoseconds length = 0;
        bool poisson = true;
        std::uint64_t sources = 1;
        AddressPool pool;
        WireBytes name;    ///< the suffix, or the whole name
        bool fixed = true; ///< no random label before the name
        std::uint16_t type = 1;
        Transport transport = Transport::kUdp;
        bool recursion_desired = false;
        std::uint64_t seed = 1;
    };

    explicit AttackRule(const Settings& settings);

private:
    bool work(Item& item, Batch& batch) override;
    void start(const Item& first);
    void advance();
    bool add_until(Nanoseconds time, Batch& batch);
    Item make(Batch& batch);
    void write_message(std::span<std::uint8_t> out);

    Settings settings_;
    Random random_;
    Endpoint destination_; ///< of the trace's first query of the attack's family, or documentation
    bool found_destination_ = false;
    bool started_ = false;
    Nanoseconds first_ = 0;
    double offset_ = 0; ///< of the next attack query from the attack's beginning, ns
    std::uint64_t& number_ = count("added");
};

AttackRule::AttackRule(const Settings& settings)
    : settings_(settings), random_(settings.seed),
      destination_{trace::example_server(!settings.pool.prefix().address.is_v4()), kDnsPort} {}

void AttackRule::start(const Item& first) {
    started_ = true;
    first_ = added(std::max<Nanoseconds>(first.time, 0), settings_.at);
    if (settings_.poisson) {
        advance();
    }
}

// Evenly spaced ones are computed from their number, so that no rounding adds up.
void AttackRule::advance() {
    offset_ = settings_.poisson ? offset_ + random_.exponential(1e9 / settings_.rate)
                                : static_cast<double>(number_) * 1e9 / settings_.rate;
}

void AttackRule::write_message(std::span<std::uint8_t> out) {
    store16(&out[0], static_cast<unsigned>(random_.below(65'536)));
    store16(&out[2], settings_.recursion_desired ? 0x0100U : 0U);
    store16(&out[4], 1);
    std::ranges::fill(out.subspan(6, 6), std::uint8_t{0});
    size_t at = kDnsHeaderSize;
    if (!settings_.fixed) {
        out[at] = kLabel;
        for (size_t i = 1; i <= kLabel; ++i) {
            out[at + i] = static_cast<std::uint8_t>(kCharacters[random_.below(kCharacters.size())]);
        }
        at += kLabel + 1;
    }
    std::ranges::copy(settings_.name, out.subspan(at).begin());
    at += settings_.name.size();
    store16(&out[at], settings_.type);
    store16(&out[at + 2], 1);
}

Item AttackRule::make(Batch& batch) {
    Item item;
    item.time = added(first_, offset_);
    item.source = {settings_.pool.at(random_.below(settings_.sources)),
                   static_cast<std::uint16_t>(random_.between(kLowestPort, 65'535))};
    item.destination = destination_;
    item.transport = settings_.transport;
    const size_t label = settings_.fixed ? 0 : kLabel + 1;
    item.message = batch.allocate(kDnsHeaderSize + label + settings_.name.size() + 4);
    write_message(item.message);
    return item;
}

/// False where the batch is full before.
bool AttackRule::add_until(Nanoseconds time, Batch& batch) {
    while (offset_ < static_cast<double>(settings_.length) && added(first_, offset_) <= time) {
        if (full(batch)) {
            return false;
        }
        put(make(batch), batch);
        ++number_;
        advance();
    }
    return !full(batch);
}

bool AttackRule::work(Item& item, Batch& batch) {
    if (!started_) {
        start(item);
    }
    if (!found_destination_ && item.destination.address.family == destination_.address.family) {
        destination_ = item.destination;
        found_destination_ = true;
    }
    if (!add_until(item.time, batch)) {
        return false;
    }
    takes(item);
    pass(item, batch);
    return true;
}

Nanoseconds seconds_of(Arguments& arguments, std::string_view key, std::string_view fallback) {
    const auto value = parse_seconds(arguments.get_text(key).value_or(std::string(fallback)));
    if (!value) {
        arguments.fail(key, "must be seconds with at most 9 decimals, like 30 or 0.5");
    }
    return *value;
}

void read_attack_name(Arguments& arguments, AttackRule::Settings& chosen) {
    chosen.fixed = arguments.has("fixed");
    const auto key = std::string_view(chosen.fixed ? "fixed" : "name");
    const auto names = get_names(arguments, key);
    if (names.size() != 1 || (chosen.fixed && arguments.has("name"))) {
        arguments.fail({}, "needs either name=SUFFIX, for random names below it, or fixed=NAME");
    }
    chosen.name = names.front();
    if (!chosen.fixed && chosen.name.size() > kLongestSuffix) {
        arguments.fail("name", "is too long for a label before it; give at most 242 bytes");
    }
}

AddressPool attackers(Arguments& arguments, std::uint64_t seed) {
    const auto prefixes = get_prefixes(arguments, "prefix");
    const Prefix prefix = prefixes.empty() ? known_prefix(kAttackers) : prefixes.front();
    if (prefixes.size() > 1 || prefix.free_bits() < 2) {
        arguments.fail("prefix", "needs one prefix, with at least 2 bits left free");
    }
    return {prefix, mixed_seed(seed, kPoolUse)};
}

void read_attack_content(Arguments& arguments, AttackRule::Settings& chosen) {
    read_attack_name(arguments, chosen);
    if (const auto type = arguments.get_text("type")) {
        chosen.type = type_value(arguments, "type", *type);
    }
    if (const auto transport = arguments.get_text("transport")) {
        chosen.transport = transport_value(arguments, "transport", *transport);
    }
    chosen.recursion_desired = arguments.get_switch("rd").value_or(false);
}

std::unique_ptr<Rule> make_attack(Arguments& arguments, const RuleSettings& settings) {
    if (!arguments.takes_all()) {
        arguments.fail({}, "adds queries and takes no share and no where; leave them out");
    }
    const auto rate = arguments.get_number("rate", 1e-3, 1e8);
    if (!rate || !arguments.has("for")) {
        arguments.fail({}, "needs rate= in queries/s and for= in seconds");
    }
    AttackRule::Settings chosen{.pool = attackers(arguments, settings.seed), .name = {}};
    chosen.rate = *rate;
    chosen.at = seconds_of(arguments, "at", "0");
    chosen.length = seconds_of(arguments, "for", "");
    chosen.poisson = arguments.get_switch("poisson").value_or(true);
    chosen.seed = settings.seed;
    chosen.sources = arguments.get_integer("sources", 1, 1'000'000'000).value_or(1000);
    if (chosen.sources > chosen.pool.size()) {
        arguments.fail("sources", fmt::format("has {} addresses, but prefix has room for {}",
                                              chosen.sources, chosen.pool.size()));
    }
    read_attack_content(arguments, chosen);
    return std::make_unique<AttackRule>(chosen);
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
        .make = make_attack,
        .effect = Effect::kSources};
}

} // namespace reprise::mutator
