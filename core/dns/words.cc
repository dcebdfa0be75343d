#include "core/dns/words.hh"

#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>

namespace reprise {
namespace {

using Word = WordTable::Word;

constexpr std::array kTypes{
    Word{1, "A"},         Word{2, "NS"},       Word{3, "MD"},          Word{4, "MF"},
    Word{5, "CNAME"},     Word{6, "SOA"},      Word{7, "MB"},          Word{8, "MG"},
    Word{9, "MR"},        Word{10, "NULL"},    Word{11, "WKS"},        Word{12, "PTR"},
    Word{13, "HINFO"},    Word{14, "MINFO"},   Word{15, "MX"},         Word{16, "TXT"},
    Word{17, "RP"},       Word{18, "AFSDB"},   Word{19, "X25"},        Word{20, "ISDN"},
    Word{21, "RT"},       Word{22, "NSAP"},    Word{23, "NSAP-PTR"},   Word{24, "SIG"},
    Word{25, "KEY"},      Word{26, "PX"},      Word{27, "GPOS"},       Word{28, "AAAA"},
    Word{29, "LOC"},      Word{30, "NXT"},     Word{31, "EID"},        Word{32, "NIMLOC"},
    Word{33, "SRV"},      Word{34, "ATMA"},    Word{35, "NAPTR"},      Word{36, "KX"},
    Word{37, "CERT"},     Word{38, "A6"},      Word{39, "DNAME"},      Word{40, "SINK"},
    Word{41, "OPT"},      Word{42, "APL"},     Word{43, "DS"},         Word{44, "SSHFP"},
    Word{45, "IPSECKEY"}, Word{46, "RRSIG"},   Word{47, "NSEC"},       Word{48, "DNSKEY"},
    Word{49, "DHCID"},    Word{50, "NSEC3"},   Word{51, "NSEC3PARAM"}, Word{52, "TLSA"},
    Word{53, "SMIMEA"},   Word{55, "HIP"},     Word{56, "NINFO"},      Word{57, "RKEY"},
    Word{58, "TALINK"},   Word{59, "CDS"},     Word{60, "CDNSKEY"},    Word{61, "OPENPGPKEY"},
    Word{62, "CSYNC"},    Word{63, "ZONEMD"},  Word{64, "SVCB"},       Word{65, "HTTPS"},
    Word{66, "DSYNC"},    Word{99, "SPF"},     Word{100, "UINFO"},     Word{101, "UID"},
    Word{102, "GID"},     Word{103, "UNSPEC"}, Word{104, "NID"},       Word{105, "L32"},
    Word{106, "L64"},     Word{107, "LP"},     Word{108, "EUI48"},     Word{109, "EUI64"},
    Word{249, "TKEY"},    Word{250, "TSIG"},   Word{251, "IXFR"},      Word{252, "AXFR"},
    Word{253, "MAILB"},   Word{254, "MAILA"},  Word{255, "ANY"},       Word{256, "URI"},
    Word{257, "CAA"},     Word{258, "AVC"},    Word{259, "DOA"},       Word{260, "AMTRELAY"},
    Word{261, "RESINFO"}, Word{262, "WALLET"}, Word{32768, "TA"},      Word{32769, "DLV"},
};

constexpr std::array kClasses{
    Word{1, "IN"}, Word{3, "CH"}, Word{4, "HS"}, Word{254, "NONE"}, Word{255, "ANY"},
};

constexpr std::array kOpcodes{
    Word{0, "QUERY"},  Word{1, "IQUERY"}, Word{2, "STATUS"},
    Word{4, "NOTIFY"}, Word{5, "UPDATE"}, Word{6, "DSO"},
};

constexpr std::array kOptions{
    Word{1, "LLQ"},          Word{2, "UL"},       Word{3, "NSID"},
    Word{5, "DAU"},          Word{6, "DHU"},      Word{7, "N3U"},
    Word{8, "ECS"},          Word{9, "EXPIRE"},   Word{10, "COOKIE"},
    Word{11, "KEEPALIVE"},   Word{12, "PADDING"}, Word{13, "CHAIN"},
    Word{14, "KEY-TAG"},     Word{15, "EDE"},     Word{18, "REPORT-CHANNEL"},
    Word{19, "ZONEVERSION"},
};

constexpr std::array kRcodes{
    Word{0, "NOERROR"},    Word{1, "FORMERR"}, Word{2, "SERVFAIL"}, Word{3, "NXDOMAIN"},
    Word{4, "NOTIMP"},     Word{5, "REFUSED"}, Word{6, "YXDOMAIN"}, Word{7, "YXRRSET"},
    Word{8, "NXRRSET"},    Word{9, "NOTAUTH"}, Word{10, "NOTZONE"}, Word{16, "BADVERS"},
    Word{23, "BADCOOKIE"},
};

/// FNV-1a of the text in lower case.
std::uint32_t hash(std::string_view text) {
    std::uint32_t value = 2'166'136'261U;
    for (const char c : text) {
        value = (value ^ static_cast<std::uint8_t>(Lower{}(c))) * 16'777'619U;
    }
    return value ^ (value >> 15U);
}

} // namespace

WordTable::WordTable(std::span<const Word> words, std::string_view prefix, std::uint16_t largest)
    : words_(words), prefix_(prefix), largest_(largest) {
    for (size_t i = 0; i < words.size(); ++i) {
        const Word& word = words[i];
        if (word.number < kDirect) {
            by_number_.at(word.number) = static_cast<std::uint8_t>(i + 1);
        }
        size_t slot = hash(word.text) % kSlots;
        while (by_text_.at(slot) != kNone) {
            slot = (slot + 1) % kSlots;
        }
        by_text_.at(slot) = static_cast<std::uint8_t>(i + 1);
    }
}

std::string_view WordTable::word(std::uint16_t number) const {
    if (number < kDirect) {
        const std::uint8_t index = by_number_.at(number);
        return index == kNone ? std::string_view() : words_[index - 1U].text;
    }
    const auto found = std::ranges::find(words_, number, &Word::number);
    return found == words_.end() ? std::string_view() : found->text;
}

void WordTable::append(std::string& out, std::uint16_t number) const {
    const std::string_view text = word(number);
    out += text;
    if (text.empty()) {
        std::array<char, 8> digits{};
        const auto end = std::to_chars(digits.begin(), digits.end(), number).ptr;
        out += prefix_;
        out.append(digits.data(), end);
    }
}

std::string WordTable::text(std::uint16_t number) const {
    std::string out;
    append(out, number);
    return out;
}

std::optional<std::uint16_t> WordTable::number(std::string_view text) const {
    for (size_t slot = hash(text) % kSlots; by_text_.at(slot) != kNone;
         slot = (slot + 1) % kSlots) {
        const Word& word = words_[by_text_.at(slot) - 1U];
        if (same_word(text, word.text)) {
            return word.number;
        }
    }
    if (!same_word(text.substr(0, prefix_.size()), prefix_)) {
        return std::nullopt;
    }
    const auto plain = parse_number<std::uint16_t>(text.substr(prefix_.size()));
    return plain && *plain <= largest_ ? plain : std::nullopt;
}

std::string_view WordTable::nearest(std::string_view text) const {
    return nearest_word(text, words_ | std::views::transform(&Word::text));
}

const WordTable& type_words() {
    static const WordTable table(kTypes, "TYPE", 0xffff);
    return table;
}

const WordTable& class_words() {
    static const WordTable table(kClasses, "CLASS", 0xffff);
    return table;
}

const WordTable& opcode_words() {
    static const WordTable table(kOpcodes, "", 15);
    return table;
}

const WordTable& rcode_words() {
    static const WordTable table(kRcodes, "RCODE", 0xfff);
    return table;
}

const WordTable& option_words() {
    static const WordTable table(kOptions, "", 0xffff);
    return table;
}

std::string type_name(std::uint16_t type) { return type_words().text(type); }

std::optional<std::uint16_t> type_number(std::string_view name) {
    return type_words().number(name);
}

std::string rcode_name(std::uint16_t rcode) { return rcode_words().text(rcode); }

std::string opcode_name(std::uint8_t opcode) {
    const std::string_view word = opcode_words().word(opcode);
    return word.empty() ? fmt::format("OPCODE{}", opcode) : std::string(word);
}

} // namespace reprise
