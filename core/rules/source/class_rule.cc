// Classes of sources for the delay line and the queriers: round trip and idle time, each by a mix
// that sticks to the source.

#include "core/base/numbers.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/source_key.hh"
#include "core/rules/engine/values.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::rules {
namespace {

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
