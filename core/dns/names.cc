#include "core/dns/names.hh"

#include "core/dns/words.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {
namespace {

struct Mnemonic {
    std::uint16_t number;
    std::string_view name;
};

constexpr std::array kRcodes{
    Mnemonic{0, "NOERROR"},    Mnemonic{1, "FORMERR"},  Mnemonic{2, "SERVFAIL"},
    Mnemonic{3, "NXDOMAIN"},   Mnemonic{4, "NOTIMP"},   Mnemonic{5, "REFUSED"},
    Mnemonic{6, "YXDOMAIN"},   Mnemonic{7, "YXRRSET"},  Mnemonic{8, "NXRRSET"},
    Mnemonic{9, "NOTAUTH"},    Mnemonic{10, "NOTZONE"}, Mnemonic{16, "BADVERS"},
    Mnemonic{23, "BADCOOKIE"},
};

} // namespace

std::string type_name(std::uint16_t type) {
    std::string text;
    trace::type_words().append(text, type);
    return text;
}

std::optional<std::uint16_t> type_number(std::string_view name) {
    return trace::type_words().number(name);
}

std::string rcode_name(std::uint16_t rcode) {
    const auto* const found = std::ranges::find(kRcodes, rcode, &Mnemonic::number);
    return found != kRcodes.end() ? std::string(found->name) : fmt::format("RCODE{}", rcode);
}

std::string opcode_name(std::uint8_t opcode) {
    const std::string_view word = trace::opcode_words().word(opcode);
    return word.empty() ? fmt::format("OPCODE{}", opcode) : std::string(word);
}

} // namespace reprise::mutator
