#include "core/dns/words.hh"

#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>

namespace reprise {
namespace {

/// FNV-1a of the text in lower case.
std::uint32_t hash(std::string_view text) {
    std::uint32_t value = 2'166'136'261U;
    for (const char c : text) {
        value = (value ^ static_cast<std::uint8_t>(Lower{}(c))) * 16'777'619U;
    }
    return value ^ (value >> 15U);
}

} // namespace

WordTable::WordTable(std::initializer_list<Run> runs, std::string_view prefix,
                     std::uint16_t largest)
    : prefix_(prefix), largest_(largest) {
    for (auto [number, words] : runs) {
        for (const auto word : std::views::split(words, ' ')) {
            add({.number = number++, .text = {word.begin(), word.end()}});
        }
    }
}

void WordTable::add(const Word& word) {
    words_.push_back(word);
    const auto place = static_cast<std::uint8_t>(words_.size());
    if (word.number < kDirect) {
        by_number_.at(word.number) = place;
    }
    size_t slot = hash(word.text) % kSlots;
    while (by_text_.at(slot) != kNone) {
        slot = (slot + 1) % kSlots;
    }
    by_text_.at(slot) = place;
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
        out += prefix_;
        out += fmt::format_int(number).c_str();
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
    static const WordTable table(
        {{1, "A NS MD MF CNAME SOA MB MG MR NULL WKS PTR HINFO MINFO MX TXT RP AFSDB X25 ISDN "
             "RT NSAP NSAP-PTR SIG KEY PX GPOS AAAA LOC NXT EID NIMLOC SRV ATMA NAPTR KX CERT "
             "A6 DNAME SINK OPT APL DS SSHFP IPSECKEY RRSIG NSEC DNSKEY DHCID NSEC3 NSEC3PARAM "
             "TLSA SMIMEA"},
         {55, "HIP NINFO RKEY TALINK CDS CDNSKEY OPENPGPKEY CSYNC ZONEMD SVCB HTTPS DSYNC"},
         {99, "SPF UINFO UID GID UNSPEC NID L32 L64 LP EUI48 EUI64"},
         {249, "TKEY TSIG IXFR AXFR MAILB MAILA ANY URI CAA AVC DOA AMTRELAY RESINFO WALLET"},
         {32768, "TA DLV"}},
        "TYPE", 0xffff);
    return table;
}

const WordTable& class_words() {
    static const WordTable table({{1, "IN"}, {3, "CH HS"}, {254, "NONE ANY"}}, "CLASS", 0xffff);
    return table;
}

const WordTable& opcode_words() {
    static const WordTable table({{0, "QUERY IQUERY STATUS"}, {4, "NOTIFY UPDATE DSO"}}, "", 15);
    return table;
}

const WordTable& rcode_words() {
    static const WordTable table(
        {{0, "NOERROR FORMERR SERVFAIL NXDOMAIN NOTIMP REFUSED YXDOMAIN YXRRSET NXRRSET "
             "NOTAUTH NOTZONE"},
         {16, "BADVERS"},
         {23, "BADCOOKIE"}},
        "RCODE", 0xfff);
    return table;
}

const WordTable& option_words() {
    static const WordTable table(
        {{1, "LLQ UL NSID"},
         {5, "DAU DHU N3U ECS EXPIRE COOKIE KEEPALIVE PADDING CHAIN KEY-TAG EDE"},
         {18, "REPORT-CHANNEL ZONEVERSION"}},
        "", 0xffff);
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
