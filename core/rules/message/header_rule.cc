// header: flags and opcode of a query's header.

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/values.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_layout.hh"
#include "core/rules/message/message_rule.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace reprise::rules {
namespace {

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

} // namespace reprise::rules
