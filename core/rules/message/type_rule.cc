// type: the type that is asked for, one or a mix.

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/source_key.hh"
#include "core/rules/engine/values.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_layout.hh"
#include "core/rules/message/message_rule.hh"
#include "core/rules/message/weighted_picker.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::rules {
namespace {

constexpr std::uint64_t kTypeUse = 0x74797065; ///< of the seed; other than the selector's

struct TypeMix {
    std::vector<std::uint16_t> types;
    std::vector<double> weights;
};

TypeMix read_types(Arguments& arguments) {
    TypeMix mix;
    for (const auto& query : get_mix(arguments, "to")) {
        mix.types.push_back(type_value(arguments, "to", query.value));
        mix.weights.push_back(query.weight);
    }
    if (mix.types.empty()) {
        arguments.fail("", "no type to change to; give to=AAAA or to=A:50,AAAA:50");
    }
    return mix;
}

class TypeRule final : public MessageRule {
public:
    TypeRule(Arguments& arguments, const RuleSettings& settings)
        : TypeRule(arguments, settings, read_types(arguments)) {}

private:
    TypeRule(Arguments& arguments, const RuleSettings& settings, const TypeMix& mix)
        : MessageRule(arguments, settings), types_(mix.types), picker_(mix.weights, settings.seed),
          sticky_(mix.weights),
          by_source_(arguments.get_word("by", {"query", "source"}) == "source"),
          key_(mixed_seed(settings.seed, kTypeUse)) {}

    Edit edit(Query& query, const MessageLayout& layout, Batch& /*batch*/) override {
        if (layout.name_end == 0) { // deals nothing
            return set_type(query.message, layout, 0);
        }
        const size_t choice =
            by_source_ ? sticky_.draw(source_key(query.source.address, key_)) : picker_.pick();
        return set_type(query.message, layout, types_[choice]);
    }

    std::vector<std::uint16_t> types_;
    WeightedPicker picker_;
    StickyChoice sticky_;
    bool by_source_;
    std::uint64_t key_;
};

} // namespace

RuleKind type_kind() {
    return {.name = "type",
            .first_key = "to",
            .help = "Query types: to=AAAA, or a mix to=A:50,AAAA:50, chosen evenly; with by=source "
                    "each source has one type",
            .make = make<TypeRule>,
            .sets = {"to"}};
}

} // namespace reprise::rules
