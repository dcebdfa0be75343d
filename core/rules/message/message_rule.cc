#include "core/rules/message/message_rule.hh"

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/engine/values.hh"
#include "core/rules/message/message_editor.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::rules {

MessageRule::MessageRule(Arguments& arguments, const RuleSettings& settings)
    : Rule(Selector(arguments, settings.seed, Closes::kNone)),
      drop_malformed_(settings.drop_malformed) {}

Rule::Outcome MessageRule::change(Query& query, Batch& batch) {
    const MessageLayout layout = parse_layout(query.message);
    switch (edit(query, layout, batch)) {
    case Edit::kChanged:
        signed_ += layout.is_signed ? 1U : 0U;
        return Outcome::kChanged;
    case Edit::kMalformed:
        ++malformed_;
        dropped_ += drop_malformed_ ? 1U : 0U;
        return drop_malformed_ ? Outcome::kDropped : Outcome::kSame;
    case Edit::kNoQuestion:
        ++no_question_;
        break;
    case Edit::kTooLong:
        ++too_long_;
        break;
    case Edit::kCompressed:
        ++compressed_;
        break;
    case Edit::kUnchanged:
        break;
    }
    return Outcome::kSame;
}

namespace {

// header: flags and opcode of a query's header.

constexpr std::uint16_t kOpcodeMask = 0x7800;
constexpr unsigned kOpcodeShift = 11;

/// Bits to be replaced.
struct Flags {
    std::uint16_t mask = 0;
    std::uint16_t value = 0;
};

void want_flag(const Arguments& arguments, const std::string& key, const std::string& name, bool on,
               Flags& flags) {
    const std::uint16_t bit = flag_value(arguments, key, name);
    if ((flags.mask & bit) != 0) {
        arguments.fail(key, fmt::format("{} is there twice; set it once, on or off", name));
    }
    flags.mask |= bit;
    flags.value |= on ? bit : std::uint16_t{0};
}

/// "rd,-cd": rd on, cd off.
void read_list(Arguments& arguments, Flags& flags) {
    for (const std::string& word : arguments.get_list("set")) {
        const bool off = word.starts_with('-');
        want_flag(arguments, "set", off ? word.substr(1) : word, !off, flags);
    }
}

Flags read_flags(Arguments& arguments) {
    Flags flags;
    read_list(arguments, flags);
    for (const char* name : {"rd", "cd", "ad", "z"}) {
        if (const auto on = arguments.get_switch(name)) {
            want_flag(arguments, name, name, *on, flags);
        }
    }
    if (const auto word = arguments.get_text("opcode")) {
        const unsigned opcode = opcode_value(arguments, "opcode", *word);
        flags.mask |= kOpcodeMask;
        flags.value |= static_cast<std::uint16_t>(opcode << kOpcodeShift);
    }
    if (flags.mask == 0) {
        arguments.fail_lacking("nothing to set; give set=rd,-cd or opcode=NOTIFY");
    }
    return flags;
}

class HeaderRule final : public MessageRule {
public:
    HeaderRule(Arguments& arguments, const RuleSettings& settings)
        : MessageRule(arguments, settings), flags_(read_flags(arguments)) {}

private:
    Edit edit(Query& query, const MessageLayout& /*layout*/, Batch& /*batch*/) override {
        return set_flags(query.message, flags_.mask, flags_.value);
    }

    Flags flags_;
};

} // namespace

RuleKind header_kind() {
    return {.name = "header",
            .first_key = "set",
            .help = "Header flags: set=rd,-cd (aa tc rd ra z ad cd, - clears), or rd= cd= ad= "
                    "z=on|off; opcode=QUERY|IQUERY|STATUS|NOTIFY|UPDATE|DSO|N",
            .make = make<HeaderRule>,
            .sets = {"rd", "cd", "ad", "z", "opcode"}};
}

namespace {

// type: the type that is asked for, one or a mix.

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
