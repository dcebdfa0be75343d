#pragma once
// The kinds of rules by name. A kind is made from its arguments; each file of rules offers a list.

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/rule.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {

/// What all rules of a run share.
struct RuleSettings {
    std::uint64_t seed = 1;      ///< of this rule: already mixed with its place in the list
    bool drop_malformed = false; ///< messages that a rule cannot parse: drop or keep as they are
    bool sees_closes = true;     ///< or those who use the rule see to them
    bool again = false;          ///< the rule was made before: nothing is warned of twice
};

/// What a rule does to all queries that rules beside it must know.
enum class Effect : std::uint8_t {
    kOther,
    kTimes,    ///< moves them
    kNewTimes, ///< gives every query a new one, whatever it had
    kSources,  ///< makes others of them
};

struct RuleKind {
    std::string name;      ///< "edns": --edns on the command line, kind = "edns" in a file
    std::string first_key; ///< of a command-line value without "key="
    std::string help;      ///< one line for --help: what it does, its keys
    std::unique_ptr<Rule> (*make)(Arguments&, const RuleSettings&);
    Effect effect = Effect::kOther;
    std::vector<std::string_view> sets{}; ///< keys whose value a later rule's replaces
    std::string older{};                  ///< another name that is accepted, but not listed
};

/// RuleKind::make of a rule that reads its arguments itself.
template <typename T>
std::unique_ptr<Rule> make(Arguments& arguments, const RuleSettings& settings) {
    return std::make_unique<T>(arguments, settings);
}

// Each in the file of its rules; in the order of --help.
std::vector<RuleKind> message_rules();   ///< edns, header, name, type
std::vector<RuleKind> source_rules();    ///< transport, class, keep, drop, remap
std::vector<RuleKind> anonymize_rules(); ///< anonymize
std::vector<RuleKind> volume_rules();    ///< heavy, duplicate, collapse, attack
std::vector<RuleKind> time_rules();      ///< speed, shift, gap, poisson, jitter, profile

/// All of them, in the order of --help.
const std::vector<RuleKind>& rule_kinds();

/// The one of that name. Throws RuleError with the nearest, naming the place.
const RuleKind& kind_of(const std::string& name, const std::string& place);

/// What the command line or a file asked for, in order.
struct RuleSet {
    RuleSettings settings; ///< the seed is that of the whole list
    std::vector<Arguments> rules;
};

/// Reads a TOML rule file into `rules` (appended). Throws RuleError naming file and line.
void read_rule_file(const std::string& path, RuleSet& rules);

/// The same of the file's text; `name` stands for the file in errors.
void parse_rule_file(std::string_view text, const std::string& name, RuleSet& rules);

/// One command-line option: kind and its value as written.
Arguments parse_rule_option(const std::string& kind, const std::string& value);

/// Makes every rule and refuses what contradicts (for example `transport to=udp` for all queries
/// behind `transport to=tcp` for all, or two rules that set every time). Throws RuleError.
std::vector<std::unique_ptr<Rule>> make_rules(const RuleSet& rules);

} // namespace reprise::rules
