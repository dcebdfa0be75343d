#include "core/rules/engine/catalog.hh"

#include "core/base/nearest.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {

namespace {

constexpr std::uint64_t kMostCopies = std::uint64_t{1} << 15U;

Effect effect_of(const Arguments& rule) { return kind_of(rule.kind(), rule.place()).effect; }

/// The place, and on the command line which of the options it is.
std::string place_of(const std::vector<Arguments>& rules, size_t index) {
    const std::string& place = rules[index].place();
    return place.starts_with("--") ? fmt::format("{} (rule {})", place, index + 1)
                                   : fmt::format("{}: rule {}", place, rules[index].kind());
}

/// The key that both have and of which only the later rule's value counts; empty where none.
std::string replaced_key(const Arguments& earlier, const Arguments& later) {
    if (earlier.kind() != later.kind()) {
        return {};
    }
    const auto& keys = kind_of(later.kind(), later.place()).sets;
    for (const Argument& argument : later.list()) {
        if (std::ranges::find(keys, argument.key) != keys.end() && earlier.has(argument.key)) {
            return argument.key;
        }
    }
    return {};
}

/// Values sorted: {A, AAAA} is {AAAA, A}.
std::vector<Argument> filter_of(const Arguments& rule) {
    std::vector<Argument> filter;
    for (const Argument& argument : rule.list()) {
        if (argument.key.starts_with("where.") || argument.key == "spoofed") {
            filter.push_back({.key = argument.key, .values = argument.values, .place = ""});
            std::ranges::sort(filter.back().values);
        }
    }
    std::ranges::sort(filter, {}, &Argument::key);
    return filter;
}

bool same_filter(const Arguments& a, const Arguments& b) {
    return std::ranges::equal(filter_of(a), filter_of(b), [](const auto& x, const auto& y) {
        return x.key == y.key && x.values == y.values;
    });
}

bool keep_and_drop(const Arguments& a, const Arguments& b) {
    const bool both =
        (a.kind() == "keep" && b.kind() == "drop") || (a.kind() == "drop" && b.kind() == "keep");
    return both && !a.has("share") && !b.has("share") && same_filter(a, b);
}

/// Whether a rule between the two may choose by what the first of them did.
bool chosen_between(const std::vector<Arguments>& rules, size_t first, size_t second) {
    return std::any_of(
        rules.begin() + static_cast<std::ptrdiff_t>(first) + 1,
        rules.begin() + static_cast<std::ptrdiff_t>(second), [](const Arguments& rule) {
            return !rule.takes_all() || rule.kind() == "attack" || rule.kind() == "collapse";
        });
}

void check_pair(const std::vector<Arguments>& rules, size_t first, size_t second) {
    const Arguments& earlier = rules[first];
    const Arguments& later = rules[second];
    if (second == first + 1 && keep_and_drop(earlier, later)) {
        throw RuleError(fmt::format("{}: with {}, which has the same filter, no query is left; "
                                    "remove one of them",
                                    place_of(rules, second), place_of(rules, first)));
    }
    if (later.kind() == "heavy" && effect_of(earlier) == Effect::kSources) {
        throw RuleError(fmt::format("{}: counts sources as the inputs have them, and {} makes "
                                    "others of them; put heavy first",
                                    place_of(rules, second), place_of(rules, first)));
    }
    if (!earlier.takes_all() || !later.takes_all() || chosen_between(rules, first, second)) {
        return;
    }
    const bool again = effect_of(earlier) == Effect::kNewTimes;
    if (effect_of(later) == Effect::kNewTimes && (again || effect_of(earlier) == Effect::kTimes)) {
        throw RuleError(fmt::format("{}: gives every query a new time, so {} has no effect; {}",
                                    place_of(rules, second), place_of(rules, first),
                                    again ? std::string("remove one")
                                          : std::string("remove it, or put it behind")));
    }
    const std::string key = replaced_key(earlier, later);
    if (!key.empty()) {
        throw RuleError(fmt::format("{}: sets {} of every query, so that of {} has no effect; "
                                    "remove one, or give it share= or where.",
                                    place_of(rules, second), key, place_of(rules, first)));
    }
}

/// Connections are numbered below 2^48 and copies count on from there; 63 bits must hold them.
void check_copies(const std::vector<Arguments>& rules) {
    std::uint64_t product = 1;
    for (size_t i = 0; i < rules.size(); ++i) {
        if (rules[i].kind() != "duplicate") {
            continue;
        }
        Arguments rule = rules[i]; // read once more
        product *= rule.get_integer("copies", 1, kMostCopies).value_or(1);
        if (product > kMostCopies) {
            throw RuleError(fmt::format("{}: with the duplicate rules before it every query comes "
                                        "{} times; at most {} are possible",
                                        place_of(rules, i), product, kMostCopies));
        }
    }
}

/// Throws RuleError, naming both places, where one rule leaves another without any effect: both
/// for all queries and setting the same thing, or keeping and dropping the same queries.
void refuse_contradictions(const std::vector<Arguments>& rules) {
    check_copies(rules);
    for (size_t second = 1; second < rules.size(); ++second) {
        for (size_t first = 0; first < second; ++first) {
            check_pair(rules, first, second);
        }
    }
}

std::vector<RuleKind> all_kinds() {
    std::vector<RuleKind> kinds{edns_kind(),      header_kind(),    name_kind(),  type_kind(),
                                transport_kind(), class_kind(),     keep_kind(),  drop_kind(),
                                remap_kind(),     anonymize_kind(), heavy_kind(), duplicate_kind(),
                                collapse_kind(),  attack_kind()};
    std::ranges::move(time_rules(), std::back_inserter(kinds));
    return kinds;
}

/// Whether "key=" begins the piece: keys are lower-case words with dots and dashes.
bool begins_key(std::string_view piece) {
    const size_t equals = piece.find('=');
    return equals != std::string_view::npos && equals != 0 &&
           std::ranges::all_of(piece.substr(0, equals), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
           });
}

void add_piece(std::string_view piece, const RuleKind& kind, const std::string& place,
               std::vector<Argument>& list) {
    if (begins_key(piece)) {
        const size_t equals = piece.find('=');
        list.push_back({std::string(piece.substr(0, equals)), {}, place});
        piece.remove_prefix(equals + 1);
    } else if (list.empty()) {
        list.push_back({kind.first_key, {}, place});
    }
    if (piece.empty()) {
        throw RuleError(fmt::format("{}, key {}: has no value", place, list.back().key));
    }
    list.back().values.emplace_back(piece);
}

} // namespace

const std::vector<RuleKind>& rule_kinds() {
    static const std::vector<RuleKind> kKinds = all_kinds();
    return kKinds;
}

const RuleKind& kind_of(const std::string& name, const std::string& place) {
    const auto found = std::ranges::find_if(rule_kinds(), [&](const RuleKind& kind) {
        return !name.empty() && (kind.name == name || kind.older == name);
    });
    if (found != rule_kinds().end()) {
        return *found;
    }
    std::vector<std::string> names;
    std::ranges::transform(rule_kinds(), std::back_inserter(names), &RuleKind::name);
    throw RuleError(
        fmt::format("{}: rule \"{}\" is not known{}", place, name, suggestion(name, names)));
}

Arguments parse_rule_option(const std::string& kind, const std::string& value) {
    const std::string place = "--" + kind;
    const RuleKind& known = kind_of(kind, place);
    std::vector<Argument> list;
    std::string_view rest = value;
    for (bool more = !rest.empty(); more;) {
        const size_t comma = std::min(rest.find(','), rest.size());
        more = comma < rest.size();
        add_piece(rest.substr(0, comma), known, place, list);
        rest.remove_prefix(comma + (more ? 1 : 0));
    }
    return {kind, place, std::move(list)};
}

std::vector<std::unique_ptr<Rule>> make_rules(const RuleSet& rules) {
    std::vector<std::unique_ptr<Rule>> made;
    for (size_t i = 0; i < rules.rules.size(); ++i) {
        Arguments arguments = rules.rules[i];
        const RuleSettings settings{.seed = mixed_seed(rules.seed, i),
                                    .drop_malformed = rules.drop_malformed,
                                    .sees_closes = rules.sees_closes,
                                    .again = rules.again};
        made.push_back(kind_of(arguments.kind(), arguments.place()).make(arguments, settings));
        arguments.finish();
    }
    refuse_contradictions(rules.rules);
    return made;
}

} // namespace reprise::rules
