#pragma once
// The words that stand for numbers in DNS (IANA's registries), for text that people edit.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

inline constexpr std::uint16_t kTypeA = 1;
inline constexpr std::uint16_t kTypeNs = 2;
inline constexpr std::uint16_t kTypeCname = 5;
inline constexpr std::uint16_t kTypeSoa = 6;
inline constexpr std::uint16_t kTypePtr = 12;
inline constexpr std::uint16_t kTypeMx = 15;
inline constexpr std::uint16_t kTypeTxt = 16;
inline constexpr std::uint16_t kTypeKey = 25;
inline constexpr std::uint16_t kTypeAaaa = 28;
inline constexpr std::uint16_t kTypeSrv = 33;
inline constexpr std::uint16_t kTypeDname = 39;
inline constexpr std::uint16_t kTypeDs = 43;
inline constexpr std::uint16_t kTypeRrsig = 46;
inline constexpr std::uint16_t kTypeNsec = 47;
inline constexpr std::uint16_t kTypeDnskey = 48;
inline constexpr std::uint16_t kTypeNsec3 = 50;
inline constexpr std::uint16_t kTypeNsec3Param = 51;
inline constexpr std::uint16_t kTypeIxfr = 251;
inline constexpr std::uint16_t kTypeAxfr = 252;
inline constexpr std::uint16_t kTypeAny = 255;

class WordTable {
public:
    /// The words of numbers from `first` on, with spaces between them.
    struct Run {
        std::uint16_t first;
        std::string_view words;
    };

    /// Numbers up to `largest`; those without a word are written `prefix` and number. The texts
    /// outlive the table.
    WordTable(std::initializer_list<Run> runs, std::string_view prefix, std::uint16_t largest);

    /// Empty where the number has no word.
    [[nodiscard]] std::string_view word(std::uint16_t number) const;

    /// The word, or prefix and number.
    void append(std::string& out, std::uint16_t number) const;

    [[nodiscard]] std::string text(std::uint16_t number) const;

    /// Of a word in any case, or of prefix and number.
    [[nodiscard]] std::optional<std::uint16_t> number(std::string_view text) const;

    /// The word that `text` was most likely meant to be; empty where none is near.
    [[nodiscard]] std::string_view nearest(std::string_view text) const;

private:
    static constexpr size_t kSlots = 256;    ///< a power of two, over twice the words
    static constexpr size_t kDirect = 272;   ///< numbers below are found without a search
    static constexpr std::uint8_t kNone = 0; ///< else index + 1

    struct Word {
        std::uint16_t number;
        std::string_view text;
    };

    void add(const Word& word);

    std::vector<Word> words_;
    std::string_view prefix_;
    std::uint16_t largest_;
    std::array<std::uint8_t, kDirect> by_number_{};
    std::array<std::uint8_t, kSlots> by_text_{}; ///< open addressing
};

struct FlagName {
    std::string_view name;
    std::uint16_t bit; ///< in the header's second word
};

/// In the header's order.
inline constexpr std::array<FlagName, 7> kFlagNames{{{"aa", 0x0400},
                                                     {"tc", 0x0200},
                                                     {"rd", 0x0100},
                                                     {"ra", 0x0080},
                                                     {"z", 0x0040},
                                                     {"ad", 0x0020},
                                                     {"cd", 0x0010}}};

const WordTable& type_words();   ///< A, AAAA, TYPE4711 (RFC 3597)
const WordTable& class_words();  ///< IN, CH, HS, NONE, ANY, CLASS4711
const WordTable& opcode_words(); ///< QUERY, IQUERY, STATUS, NOTIFY, UPDATE, DSO, 7
const WordTable& rcode_words();  ///< NOERROR, RCODE77
const WordTable& option_words(); ///< of EDNS: NSID, ECS, COOKIE, 4711

/// "AAAA", or "TYPE4711" (RFC 3597) where there is no name.
std::string type_name(std::uint16_t type);

/// The reverse, without regard to case; "TYPE4711" is understood.
std::optional<std::uint16_t> type_number(std::string_view name);

/// "NXDOMAIN", or "RCODE77".
std::string rcode_name(std::uint16_t rcode);

/// "QUERY", or "OPCODE9".
std::string opcode_name(std::uint8_t opcode);

} // namespace reprise
