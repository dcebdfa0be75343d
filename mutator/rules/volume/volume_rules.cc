#include "mutator/rules/volume/volume_rules.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/prefix.hh"
#include "core/base/trace_time.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/engine/source_key.hh"
#include "mutator/rules/engine/values.hh"
#include "mutator/rules/source/source_addresses.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {

namespace {

constexpr std::string_view kCopies4 = "10.0.0.0/8";      ///< private use (RFC 1918)
constexpr std::string_view kCopies6 = "fd00::/8";        ///< the same (RFC 4193)
constexpr std::string_view kAttackers = "100.64.0.0/10"; ///< shared address space (RFC 6598)
constexpr std::uint64_t kMostDuplicates = 10'000;
constexpr size_t kLongestSuffix = 255 - 13; ///< leaves room for the random label

/// Uses of a rule's seed, apart from the selector's.
constexpr std::uint64_t kPool4Use = 4;
constexpr std::uint64_t kPool6Use = 6;

/// The one of `prefixes` of the family, or the default.
AddressPool pool_of(const Arguments& arguments, const std::vector<Prefix>& prefixes, bool v4,
                    std::uint64_t seed) {
    Prefix prefix = known_prefix(v4 ? kCopies4 : kCopies6);
    int found = 0;
    for (const Prefix& one : prefixes) {
        if (one.address.is_v4() == v4) {
            prefix = one;
            ++found;
        }
    }
    if (found > 1 || prefix.free_bits() < 2) {
        arguments.fail("prefix", "needs one prefix a family, with at least 2 bits left free");
    }
    return {prefix, mixed_seed(seed, v4 ? kPool4Use : kPool6Use)};
}

std::unique_ptr<Rule> make_duplicate(Arguments& arguments, const RuleSettings& settings) {
    const auto copies = arguments.get_integer("copies", 1, kMostDuplicates);
    if (!copies) {
        arguments.fail({}, "has no copies=; give how many copies of each query to send, like 2");
    }
    const auto prefixes = get_prefixes(arguments, "prefix");
    const DuplicateRule::Settings chosen{.copies = static_cast<std::uint32_t>(*copies),
                                         .pool4 = pool_of(arguments, prefixes, true, settings.seed),
                                         .pool6 =
                                             pool_of(arguments, prefixes, false, settings.seed),
                                         .all = arguments.takes_all()};
    return std::make_unique<DuplicateRule>(Selector(arguments, settings.seed, true), chosen);
}

std::unique_ptr<Rule> make_collapse(Arguments& arguments, const RuleSettings& settings) {
    const double timeout = arguments.get_number("timeout", 1e-6, 1e6).value_or(5);
    return std::make_unique<CollapseRule>(Selector(arguments, settings.seed),
                                          static_cast<Nanoseconds>(std::llround(timeout * 1e9)));
}

std::unique_ptr<Rule> make_heavy(Arguments& arguments, const RuleSettings& settings) {
    const auto top = arguments.get_integer("top", 1, 1'000'000'000);
    if (!top) {
        arguments.fail({}, "has no top=; give how many of the busiest sources shall stay");
    }
    Selector surveyed(arguments, settings.seed);
    return std::make_unique<HeavyRule>(std::move(surveyed), Selector(arguments, settings.seed),
                                       *top);
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
    return {prefix, mixed_seed(seed, kPool4Use)};
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

std::vector<RuleKind> volume_rules() {
    return {
        {"heavy", "top",
         "keeps only the queries of the top= sources that ask most, as the inputs have them: "
         "stands "
         "before rules that change sources; reads the inputs twice",
         make_heavy},
        {"duplicate",
         "copies",
         "each query comes copies= times, from fresh sources out of prefix=PREFIX[,PREFIX6] "
         "(10.0.0.0/8, fd00::/8); by=source by default",
         make_duplicate,
         {},
         Effect::kSources},
        {"collapse", "timeout",
         "drops a client's UDP retransmits within timeout= seconds (5): same address, port, id and "
         "question",
         make_collapse},
        {"attack",
         "rate",
         "mixes in rate= queries/s from at= seconds (0) for= seconds, at most to the trace's end: "
         "sources= (1000) out of prefix= (100.64.0.0/10), name=SUFFIX for random names below it or "
         "fixed=NAME, type= (A), transport= (udp), rd=on, poisson=off (on)",
         make_attack,
         {},
         Effect::kSources},
    };
}

namespace {

/// A copy's number must fit 63 bits.
constexpr std::uint64_t kMostConnection = (std::uint64_t{1} << 63U) - 1;

} // namespace

std::uint64_t DuplicateRule::number_of(const IpAddress& source) {
    std::uint32_t& next = source.is_v4() ? sources4_ : sources6_;
    const auto [entry, fresh] = numbers_.try_emplace(source, next);
    if (fresh) {
        ++next;
        const AddressPool& pool = source.is_v4() ? settings_.pool4 : settings_.pool6;
        inside_prefix_ += pool.prefix().holds(source) ? 1U : 0U;
        shared_ += std::uint64_t{next} * (settings_.copies - 1) > pool.size() ? 1U : 0U;
    }
    return entry->second;
}

bool DuplicateRule::takes_close(const Item& close) {
    return settings_.all || copied_.take(close.source, close.connection).has_value();
}

bool DuplicateRule::takes(const Item& item) {
    if (item.is_close()) {
        return takes_close(item);
    }
    if (!selector_.takes(item)) {
        return false;
    }
    if (!settings_.all) {
        copied_.add(item.source, item.connection, 1);
    }
    return true;
}

void DuplicateRule::begin(Item& item, Batch& batch) {
    wanted_ = takes(item) ? settings_.copies : 1;
    if (wanted_ > 1) {
        first_copy_ = number_of(item.source.address) * (settings_.copies - 1);
    }
    if (item.connection > kMostConnection / settings_.copies) {
        throw Error("rule duplicate: the trace's connections have too large numbers for so many "
                    "copies; give fewer copies=");
    }
    item.connection *= settings_.copies;
    pass(item, batch);
    done_ = 1;
}

/// The next one.
void DuplicateRule::copy(Item item, Batch& batch) {
    const AddressPool& pool = item.source.address.is_v4() ? settings_.pool4 : settings_.pool6;
    item.source.address = pool.at(first_copy_ + done_ - 1);
    item.connection += item.connection == 0 ? 0U : done_;
    item.message = batch.copy(item.message); // rules behind this one may edit each
    put(item, batch);
    added_ += item.is_close() ? 0U : 1U;
    ++done_;
}

bool DuplicateRule::work(Item& item, Batch& batch) {
    if (full(batch)) {
        return false;
    }
    if (done_ == 0) {
        begin(item, batch);
    }
    while (done_ < wanted_) {
        if (full(batch)) {
            return false;
        }
        copy(item, batch);
    }
    done_ = 0;
    return true;
}

RuleCounts DuplicateRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"added", added_},
            {"inside_prefix", inside_prefix_},
            {"shared_addresses", shared_}};
}

void HeavyRule::survey(const Item& item) {
    if (!item.is_close() && surveyed_.takes(item)) {
        ++counts_[item.source.address];
    }
}

void HeavyRule::choose() {
    std::vector<std::pair<IpAddress, std::uint64_t>> all(counts_.begin(), counts_.end());
    counts_.clear();
    const auto busier = [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    };
    const auto kept = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(top_, all.size()));
    std::ranges::partial_sort(all, all.begin() + kept, busier);
    for (auto one = all.begin(); one != all.begin() + kept; ++one) {
        heavy_.insert(one->first);
    }
    chosen_ = true;
}

// Closes go with their source; of a connection whose queries stay they stay, too.
void HeavyRule::apply(Batch& batch) {
    if (!chosen_) {
        choose();
    }
    std::uint64_t closes = 0;
    const auto goes = [&](const Item& item) {
        const bool gone = selector_.takes(item) && !heavy_.contains(item.source.address);
        closes += gone && item.is_close() ? 1U : 0U;
        return gone;
    };
    dropped_ += std::erase_if(batch.items, goes);
    dropped_ -= closes;
}

RuleCounts HeavyRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"dropped", dropped_}};
}

} // namespace reprise::mutator
