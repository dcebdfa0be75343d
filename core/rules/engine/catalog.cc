#include "core/rules/engine/catalog.hh"

#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <ios>
#include <iterator>
#include <map>
#include <memory>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <toml++/toml.h>
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

using Values = std::multiset<std::string>; // {A, AAAA} is {AAAA, A}

std::map<std::string, Values> filter_of(const Arguments& rule) {
    std::map<std::string, Values> filter;
    for (const Argument& argument : rule.list()) {
        if (argument.key.starts_with("where.") || argument.key == "spoofed") {
            filter[argument.key] = Values(argument.values.begin(), argument.values.end());
        }
    }
    return filter;
}

bool keep_and_drop(const Arguments& a, const Arguments& b) {
    const bool both =
        (a.kind() == "keep" && b.kind() == "drop") || (a.kind() == "drop" && b.kind() == "keep");
    return both && !a.has("share") && !b.has("share") && filter_of(a) == filter_of(b);
}

/// Whether a rule between the two may choose by what the first of them did.
bool chosen_between(std::span<const Arguments> rules, size_t first, size_t second) {
    return std::ranges::any_of(
        rules.subspan(first + 1, second - first - 1), [](const Arguments& rule) {
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
    std::vector<RuleKind> kinds;
    for (const auto rules :
         {message_rules, source_rules, anonymize_rules, volume_rules, time_rules}) {
        std::ranges::move(rules(), std::back_inserter(kinds));
    }
    return kinds;
}

/// Whether "key=" begins the piece: keys are lower-case words with dots and dashes.
bool begins_key(std::string_view piece) {
    const size_t equals = piece.find('=');
    return equals != std::string_view::npos && equals != 0 &&
           piece.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == equals;
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
    for (const auto piece : std::views::split(std::string_view(value), ',')) {
        add_piece({piece.begin(), piece.end()}, known, place, list);
    }
    return {kind, place, std::move(list)};
}

std::vector<std::unique_ptr<Rule>> make_rules(const RuleSet& rules) {
    std::vector<std::unique_ptr<Rule>> made;
    for (size_t i = 0; i < rules.rules.size(); ++i) {
        Arguments arguments = rules.rules[i];
        RuleSettings settings = rules.settings;
        settings.seed = mixed_seed(settings.seed, i);
        made.push_back(kind_of(arguments.kind(), arguments.place()).make(arguments, settings));
        arguments.finish();
    }
    refuse_contradictions(rules.rules);
    return made;
}

namespace {

// Rule files: TOML, read by toml++, every value with its line.

/// A rule file is written by hand; more than this is another file by mistake.
constexpr std::streamsize kMostBytes = 1L << 20U;

std::string place_of(const toml::node& node) {
    return fmt::format("{}:{}", *node.source().path, node.source().begin.line);
}

[[noreturn]] void fail(const std::string& place, const std::string& what) {
    throw RuleError(fmt::format("{}: {}", place, what));
}

/// toml++'s tables are in the order of their keys, ours in that of the file.
std::vector<std::pair<std::string, const toml::node*>> in_order(const toml::table& table) {
    std::vector<std::pair<std::string, const toml::node*>> out;
    for (const auto& [key, value] : table) {
        out.emplace_back(key.str(), &value);
    }
    std::ranges::sort(out, {}, [](const auto& entry) {
        const auto& begin = entry.second->source().begin;
        return std::pair(begin.line, begin.column);
    });
    return out;
}

/// A value as it would stand on the command line; nothing of tables and arrays.
std::string scalar_text(const std::string& place, const toml::node& node) {
    if (const auto* text = node.as_string()) {
        return text->get();
    }
    if (const auto* integer = node.as_integer()) {
        return std::to_string(integer->get());
    }
    if (const auto* number = node.as_floating_point()) {
        return decimal_text(number->get());
    }
    if (const auto* flag = node.as_boolean()) {
        return flag->get() ? "on" : "off";
    }
    std::ostringstream out;
    if (const auto* stamp = node.as_date_time()) {
        out << stamp->get();
        std::string text = out.str();
        return text.ends_with("+00:00") ? text.substr(0, text.size() - 6) + "Z" : text;
    }
    fail(place, "is not text, number, true or false, date with time in UTC, or list of these");
}

/// "[[0, 1000], [60, 5000]]" and "{A = 50}" give values "0:1000" and "A:50".
std::string element_text(const std::string& place, const toml::node& node) {
    const toml::array* pair = node.as_array();
    if (pair == nullptr) {
        return scalar_text(place, node);
    }
    if (pair->size() != 2) {
        fail(place, "a list in a list is a pair of two values");
    }
    return scalar_text(place, (*pair)[0]) + ":" + scalar_text(place, (*pair)[1]);
}

std::vector<std::string> values_of(const std::string& place, const toml::node& node) {
    std::vector<std::string> values;
    if (const toml::array* list = node.as_array()) {
        for (const toml::node& element : *list) {
            values.push_back(element_text(place, element));
        }
    } else if (const toml::table* mix = node.as_table()) {
        for (const auto& [key, weight] : in_order(*mix)) {
            values.push_back(key + ":" + scalar_text(place, *weight));
        }
    } else {
        values.push_back(scalar_text(place, node));
    }
    if (values.empty()) {
        fail(place, "has no value");
    }
    return values;
}

/// Keys of a rule, or of its "where" with that in front.
void add_arguments(const toml::table& table, const std::string& prefix,
                   std::vector<Argument>& list) {
    for (const auto& [name, value] : in_order(table)) {
        const std::string place = place_of(*value);
        const std::string key = prefix + name;
        if (key == "where") {
            const toml::table* conditions = value->as_table();
            if (conditions == nullptr) {
                fail(place, "where is a table; write where = { type = \"A\" }");
            }
            add_arguments(*conditions, "where.", list);
        } else if (key != "kind") {
            list.push_back({.key = key,
                            .values = values_of(fmt::format("{}: key {}", place, key), *value),
                            .place = place});
        }
    }
}

Arguments read_rule(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
        fail(place_of(node), "a rule is a table; write [[rule]]");
    }
    const toml::node* kind = table->get("kind");
    if (kind == nullptr) {
        fail(place_of(node), R"(the rule has no kind; write kind = "KIND")");
    }
    if (!kind->is_string()) {
        fail(place_of(*kind), "kind is not a text; write kind = \"KIND\"");
    }
    const std::string name = kind->as_string()->get();
    kind_of(name, place_of(*kind)); // a wrong one is told before its keys
    std::vector<Argument> list;
    add_arguments(*table, "", list);
    return {name, place_of(node), std::move(list)};
}

void read_key(const std::string& key, const toml::node& value, RuleSet& rules) {
    const std::string place = place_of(value);
    if (key == "seed") {
        const auto* seed = value.as_integer();
        if (seed == nullptr || seed->get() < 0) {
            fail(place, "key seed: is not a whole number from 0");
        }
        rules.settings.seed = static_cast<std::uint64_t>(seed->get());
    } else if (key == "malformed") {
        const auto word = value.value<std::string_view>().value_or("");
        if (word != "keep" && word != "drop") {
            fail(place, R"(key malformed: is neither "keep" nor "drop")");
        }
        rules.settings.drop_malformed = word == "drop";
    } else if (key == "rule") {
        const toml::array* list = value.as_array();
        if (list == nullptr) {
            fail(place, "rules are a list; write [[rule]], with two brackets");
        }
        for (const toml::node& node : *list) {
            rules.rules.push_back(read_rule(node));
        }
    } else {
        fail(place, fmt::format("key {} is not known{}", key,
                                suggestion(key, {"seed", "malformed", "rule"})));
    }
}

/// toml++'s own words, on one line.
std::string one_line(std::string_view text) {
    std::string out(text);
    std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20; }, ' ');
    return out;
}

std::string read_text(const std::string& path) {
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    std::string text(kMostBytes + 1, '\0');
    file.read(text.data(), kMostBytes + 1);
    if (file.gcount() == 0 && (!file.is_open() || file.bad() || errno != 0)) {
        throw RuleError(fmt::format("{}: cannot read the rule file: {}; check the path, that it is "
                                    "a file, and its permissions",
                                    path, std::generic_category().message(errno)));
    }
    if (file.gcount() > kMostBytes) {
        throw RuleError(
            fmt::format("{}: has more than {} bytes; is it a rule file?", path, kMostBytes));
    }
    text.resize(static_cast<size_t>(file.gcount()));
    return text;
}

} // namespace

void parse_rule_file(std::string_view text, const std::string& name, RuleSet& rules) {
    try {
        const toml::table root = toml::parse(text, name);
        if (root.empty()) {
            fail(name, "holds no rule; write [[rule]] with kind = \"KIND\"");
        }
        for (const auto& [key, value] : in_order(root)) {
            read_key(key, *value, rules);
        }
    } catch (const toml::parse_error& error) {
        throw RuleError(fmt::format("{}:{}: {}", name, error.source().begin.line,
                                    one_line(error.description())));
    }
}

void read_rule_file(const std::string& path, RuleSet& rules) {
    parse_rule_file(read_text(path), path, rules);
}

} // namespace reprise::rules
