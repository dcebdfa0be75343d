#include "core/trace/forms/text/columns.hh"

#include "core/base/bytes.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/trace/forms/message_source.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {
namespace {

/// The part of `list` before `separator`, taken off together with it.
std::string_view take_item(std::string_view& list, char separator) {
    const size_t at = std::min(list.find(separator), list.size());
    const std::string_view item = list.substr(0, at);
    list.remove_prefix(std::min(at + 1, list.size()));
    return item;
}

// Codecs: a cell to the value of a Row's member and back.

struct Number {
    template <typename T> static bool parse(std::string_view cell, T& out) {
        return parse_number(cell, out);
    }

    static void print(std::string& out, std::uint64_t value) {
        std::array<char, 20> digits{};
        out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
    }
};

/// 0 is "-".
struct Positive : Number {
    static void print(std::string& out, std::uint64_t value) {
        if (value == 0) {
            out += kNoCell;
        } else {
            Number::print(out, value);
        }
    }
};

struct Connection : Positive {
    static bool parse(std::string_view cell, std::uint64_t& out) {
        return parse_number(cell, out) && out <= kMaxConnection;
    }
};

struct Bit {
    static bool parse(std::string_view cell, bool& out) {
        out = cell == "1";
        return out || cell == "0";
    }

    static void print(std::string& out, bool value) { out += value ? '1' : '0'; }
};

/// Seconds since the epoch with up to nine decimals.
struct Time {
    static bool parse(std::string_view cell, Nanoseconds& out) {
        const bool point = cell.ends_with('.') && cell.find('.') + 1 == cell.size();
        cell.remove_suffix(point ? 1 : 0);
        const auto time = parse_seconds(cell, true);
        out = time.value_or(0);
        return time && is_trace_time(out);
    }

    static void print(std::string& out, Nanoseconds time) {
        const std::uint64_t size =
            time < 0 ? -static_cast<std::uint64_t>(time) : static_cast<std::uint64_t>(time);
        if (time < 0) {
            out += '-';
        }
        Number::print(out, size / std::uint64_t{kSecond});
        const size_t point = out.size();
        Number::print(out, std::uint64_t{kSecond} + size % std::uint64_t{kSecond});
        out[point] = '.';
    }
};

struct Address {
    static bool parse(std::string_view cell, IpAddress& out) {
        const auto address = IpAddress::parse(cell);
        if (address) {
            out = *address;
        }
        return address.has_value();
    }

    static void print(std::string& out, const IpAddress& address) { out += address.text(); }
};

struct TransportWord {
    static bool parse(std::string_view cell, Transport& out) {
        const auto* const found = std::ranges::find_if(
            kTransports, [&](Transport t) { return same_word(transport_name(t), cell); });
        out = found == kTransports.end() ? Transport{} : *found;
        return found != kTransports.end();
    }

    static void print(std::string& out, Transport value) { out += transport_name(value); }

    static std::string hint(std::string_view /*cell*/) {
        return fmt::format(" ({})",
                           joined(kTransports | std::views::transform(transport_name), ", "));
    }

    static std::string_view nearest(std::string_view cell) {
        return nearest_word(cell, kTransports | std::views::transform(transport_name));
    }
};

template <const WordTable& (*kWords)()> struct Words {
    template <typename T> static bool parse(std::string_view cell, T& out) {
        const auto number = kWords().number(cell);
        out = static_cast<T>(number.value_or(0));
        return number.has_value();
    }

    static void print(std::string& out, std::uint16_t value) { kWords().append(out, value); }

    static std::string_view nearest(std::string_view cell) { return kWords().nearest(cell); }
};

/// aa,tc,rd,ra,z,ad,cd in any order and case.
struct Flags {
    static bool parse(std::string_view cell, std::uint16_t& out) {
        out = 0;
        do {
            const std::string_view word = take_item(cell, ',');
            const auto* const found = std::ranges::find_if(
                kFlagNames, [&](const FlagName& flag) { return same_word(flag.name, word); });
            if (found == kFlagNames.end()) {
                return false;
            }
            out |= found->bit;
        } while (!cell.empty());
        return true;
    }

    static void print(std::string& out, std::uint16_t flags) {
        const size_t before = out.size();
        for (const FlagName& flag : kFlagNames) {
            if ((flags & flag.bit) != 0) {
                out += out.size() == before ? "" : ",";
                out += flag.name;
            }
        }
        if (out.size() == before) {
            out += kNoCell;
        }
    }
};

struct QuestionName {
    static bool parse(std::string_view cell, Bytes& out, RowMemory& memory) {
        const bool good = memory.name.parse(cell).empty();
        out = good ? memory.name.bytes() : Bytes();
        return good;
    }

    /// A # at the name's beginning is escaped: where the name is the first column, the row would be
    /// a comment.
    static void print(std::string& out, Bytes name) {
        const size_t at = out.size();
        append_name_text(out, name);
        if (out[at] == '#') {
            out.replace(at, 1, "\\035");
        }
    }

    static std::string hint(std::string_view cell) { return std::string(Name().parse(cell)); }
};

/// CODE:HEX;CODE:HEX.
struct Options {
    static bool parse(std::string_view cell, Bytes& out, RowMemory& memory) {
        memory.options.clear();
        do {
            if (!parse_option(take_item(cell, ';'), memory.options)) {
                return false;
            }
        } while (!cell.empty());
        out = memory.options;
        return out.size() <= 0xffff;
    }

    static void print(std::string& out, Bytes options) {
        const size_t before = out.size();
        Cursor in(options);
        while (in.left() > 0) {
            out += out.size() == before ? "" : ";";
            option_words().append(out, in.u16be());
            out += ':';
            append_hex(out, in.take(in.u16be()));
        }
        if (out.size() == before) {
            out += kNoCell;
        }
    }

private:
    static bool parse_option(std::string_view item, std::vector<std::uint8_t>& out) {
        const size_t colon = item.find(':');
        const auto code = option_words().number(item.substr(0, colon));
        if (colon == std::string_view::npos || !code) {
            return false;
        }
        const std::string_view value = item.substr(colon + 1);
        append16(out, *code);
        append16(out, value.size() / 2);
        return value.size() / 2 <= 0xffff && parse_hex(value, out);
    }
};

struct Hex {
    static bool parse(std::string_view cell, Bytes& out, RowMemory& memory) {
        memory.message.clear();
        const bool good = parse_hex(cell, memory.message);
        out = memory.message;
        return good && out.size() >= kDnsHeaderSize && out.size() <= kMaxMessage;
    }

    static void print(std::string& out, Bytes message) { append_hex(out, message); }
};

bool same(Bytes a, Bytes b) { return std::ranges::equal(a, b); }

template <typename T> bool same(const T& a, const T& b) { return a == b; }

template <auto Member, typename Codec>
constexpr ColumnKind column(std::string_view name, std::string_view fsdb, Part part,
                            std::string_view expected) {
    return {.name = name,
            .fsdb = fsdb,
            .part = part,
            .expected = expected,
            .parse =
                [](std::string_view cell, Row& row, [[maybe_unused]] RowMemory& memory) {
                    if constexpr (requires { Codec::parse(cell, row.*Member, memory); }) {
                        return Codec::parse(cell, row.*Member, memory);
                    } else {
                        return Codec::parse(cell, row.*Member);
                    }
                },
            .print = [](std::string& out, const Row& row) { Codec::print(out, row.*Member); },
            .same = [](const Row& a, const Row& b) { return same(a.*Member, b.*Member); },
            .hint = [](std::string_view cell) -> std::string {
                std::string hint;
                if constexpr (requires { Codec::hint(cell); }) {
                    hint = Codec::hint(cell);
                }
                if constexpr (requires { Codec::nearest(cell); }) {
                    const std::string_view near = Codec::nearest(cell);
                    hint += near.empty() ? "" : fmt::format("; did you mean {}?", near);
                }
                return hint;
            }};
}

constexpr std::string_view kAnAddress = "is not an address, such as 192.0.2.1 or 2001:db8::1";
constexpr std::string_view kANumber = "is not a number from 0 to 65535, or -";

} // namespace

constexpr std::array<ColumnKind, 20> kColumns{{
    column<&Row::time, Time>("time", "time timestamp ts epoch", kOfQuery,
                             "is not a time in seconds since the epoch, such as "
                             "1475762100.123456789"),
    column<&Row::source, Address>("source", "srcip sourceip source src client clientip ip",
                                  kOfQuery, kAnAddress),
    column<&Row::port, Number>("port", "srcport sourceport sport port", kOfQuery, kANumber),
    column<&Row::destination, Address>("destination", "dstip destip destinationip destination dst",
                                       kOfQuery, kAnAddress),
    column<&Row::dport, Number>("dport", "dstport destport destinationport dport", kOfQuery,
                                kANumber),
    column<&Row::transport, TransportWord>("transport", "protocol proto transport", kOfQuery,
                                           "is not a transport"),
    column<&Row::connection, Connection>("connection", "", kOfQuery,
                                         "is not the number of a connection, below 2^48, or -"),
    column<&Row::id, Number>("id", "msgid dnsid queryid id", kOfMessage,
                             "is not a number from 0 to 65535, nor the word close"),
    column<&Row::flags, Flags>("flags", "flags", kOfMessage,
                               "is not a list of flags, such as rd,ad (aa tc rd ra z ad cd), or -"),
    column<&Row::opcode, Words<opcode_words>>("opcode", "opcode", kOfMessage,
                                              "is not an opcode (QUERY, NOTIFY, ... or 0 to 15)"),
    column<&Row::name, QuestionName>("name", "qname queryname query name", kOfQuestion, ""),
    column<&Row::dns_class, Words<class_words>>("class", "qclass queryclass class", kOfQuestion,
                                                "is not a class (IN, CH, ... or CLASS1)"),
    column<&Row::type, Words<type_words>>("type", "type qtype querytype", kOfQuestion,
                                          "is not a type"),
    column<&Row::edns, Number>("edns", "edns ednssize ednsudpsize udpsize bufsize", kOfEdns,
                               kANumber),
    column<&Row::dnssec_ok, Bit>("do", "do ednsdo dobit dnssecok", kOfEdns, "is not 1, 0 or -"),
    column<&Row::version, Number>("version", "", kOfEdns, "is not a number from 0 to 255, or -"),
    column<&Row::options, Options>("options", "", kOfEdns,
                                   "is not a list of EDNS options CODE:HEX;CODE:HEX, such as "
                                   "NSID:, or -"),
    column<&Row::rtt, Positive>("rtt", "", kOfQuery, kANumber),
    column<&Row::idle, Positive>("idle", "", kOfQuery, kANumber),
    column<&Row::message, Hex>("hex", "", kOfHex,
                               "is not a message of 12 to 65535 bytes in hexadecimal, or -"),
}};

void append_cell(std::string& out, const ColumnKind& kind, const Row& row) {
    if (row.has(kind.part)) {
        kind.print(out, row);
    } else {
        out += &kind == &kind_of(Column::kId) ? kCloseCell : kNoCell;
    }
}

void append_cells(std::string& out, const Row& row) {
    for (const ColumnKind& kind : kColumns) {
        append_cell(out, kind, row);
        out += '\t';
    }
    out.back() = '\n';
}

std::string quoted_cell(std::string_view cell) {
    constexpr size_t kMost = 60;
    std::string out = "\"";
    for (const char c : cell.substr(0, kMost)) {
        if (c >= 0x20 && c < 0x7f) {
            out += c;
        } else {
            fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<std::uint8_t>(c));
        }
    }
    return out + (cell.size() > kMost ? "...\"" : "\"");
}

namespace {

constexpr std::uint16_t kFlagBits = 0x07f0;
constexpr size_t kOptSize = 11; ///< root name to length of the options

/// Whether it is a list of whole options and nothing else.
bool whole_options(Bytes options) {
    Cursor in(options);
    while (in.ok() && in.left() > 0) {
        in.skip(2);
        in.skip(in.u16be());
    }
    return in.ok();
}

} // namespace

size_t message_size(const Row& row) {
    return kDnsHeaderSize + row.name.size() + 4 +
           (row.has(kOfEdns) ? kOptSize + row.options.size() : 0);
}

void make_message(const Row& row, std::vector<std::uint8_t>& out) {
    out.resize(message_size(row));
    std::uint8_t* at = out.data();
    const auto put = [&at](auto... words) { ((store16(at, words), at += 2), ...); };
    const bool edns = row.has(kOfEdns);
    put(row.id, row.flags | size_t{row.opcode} << 11U, 1U, 0U, 0U, edns ? 1U : 0U);
    at = copy_bytes(row.name, at);
    put(row.type, row.dns_class);
    if (edns) {
        *at++ = 0;
        put(kTypeOpt, row.edns, row.version, row.dnssec_ok ? 0x8000U : 0U, row.options.size());
        copy_bytes(row.options, at);
    }
}

void read_message(Bytes message, Row& row) {
    const auto header = parse_header(message).value_or(DnsHeader{});
    row.parts |= kOfMessage;
    row.id = header.id;
    row.flags = header.flags & kFlagBits;
    row.opcode = header.opcode();
    if (const auto question = parse_question(message)) {
        row.parts |= kOfQuestion;
        row.name = question->name;
        row.type = question->type;
        row.dns_class = question->dns_class;
    }
    bool plain = header.questions == 1 && header.answers == 0 && header.authorities == 0 &&
                 !header.is_response() && header.rcode() == 0;
    if (const auto edns = parse_edns(message)) {
        row.parts |= kOfEdns;
        row.edns = edns->udp_size;
        row.dnssec_ok = edns->dnssec_ok;
        row.version = edns->version;
        row.options = whole_options(edns->options) ? edns->options : Bytes();
        const size_t behind = row.options.size() + 4; // flags and length of the options
        plain = plain && edns->extended_rcode == 0 &&
                (load16(message.data() + message.size() - behind) & 0x7fffU) == 0;
    }
    // The size tells the rest: a name of OPT, half an option and bytes behind it make it larger.
    if (!plain || !row.has(kOfQuestion) || header.additionals != (row.has(kOfEdns) ? 1 : 0) ||
        message.size() != message_size(row)) {
        row.parts |= kOfHex;
    }
}

} // namespace reprise::trace
