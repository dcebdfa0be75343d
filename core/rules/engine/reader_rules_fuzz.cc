// What users write: rule files and rule options. The first byte chooses: "-" and a kind's letter
// for an option, anything else for a file.
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace reprise::rules;

RuleSet parse(std::string_view text) {
    RuleSet set;
    if (text.size() < 2 || text[0] != '-') {
        parse_rule_file(text, "fuzz.toml", set);
        return set;
    }
    const auto& kinds = rule_kinds();
    const auto& kind = kinds[static_cast<unsigned char>(text[1]) % kinds.size()];
    set.rules.push_back(parse_rule_option(kind.name, std::string(text.substr(2))));
    return set;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (text.find('@') != std::string_view::npos) {
        return 0; // would read files
    }
    try {
        make_rules(parse(text));
    } catch (const RuleError& error) {
        const std::string_view what = error.what();
        if (what.empty()) {
            std::abort();
        }
    }
    return 0;
}
