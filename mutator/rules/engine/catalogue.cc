#include "mutator/rules/engine/catalogue.hh"

#include "core/base/nearest.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/contradictions.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/source_key.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

std::vector<RuleKind> all_kinds() {
    std::vector<RuleKind> kinds;
    for (auto* list : {message_rules, traffic_rules, volume_rules, time_rules}) {
        std::ranges::move(list(), std::back_inserter(kinds));
    }
    return kinds;
}

const RuleKind& kind_of(const std::string& name, const std::string& place) {
    const auto found = std::ranges::find(rule_kinds(), name, &RuleKind::name);
    if (found != rule_kinds().end()) {
        return *found;
    }
    std::vector<std::string> names;
    std::ranges::transform(rule_kinds(), std::back_inserter(names), &RuleKind::name);
    throw RuleError(
        fmt::format("{}: rule \"{}\" is not known{}", place, name, suggestion(name, names)));
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
                                    .drop_malformed = rules.drop_malformed};
        made.push_back(kind_of(arguments.kind(), arguments.place()).make(arguments, settings));
        arguments.finish();
    }
    refuse_contradictions(rules.rules);
    return made;
}

} // namespace reprise::mutator
