#include "core/dns/message.hh"

#include "core/base/ascii.hh"
#include "core/base/bytes.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

constexpr size_t kMaxNameSize = 255;

/// Skips a possibly compressed name. A pointer ends it; it is not followed, but leads to what lies
/// before the name, as those that make no loop do.
bool skip_name(Cursor& in) {
    const size_t start = in.position();
    while (in.ok()) {
        const std::uint8_t length = in.u8();
        if ((length & 0xc0U) == 0xc0U) {
            const size_t target = (length & 0x3fU) << 8U | in.u8();
            return in.ok() && target < start;
        }
        if ((length & 0xc0U) != 0) {
            return false;
        }
        if (length == 0) {
            return in.ok();
        }
        in.skip(length);
    }
    return false;
}

bool skip_questions(Cursor& in, unsigned count) {
    for (unsigned i = 0; i < count && in.ok(); ++i) {
        if (!skip_name(in)) {
            return false;
        }
        in.skip(4);
    }
    return in.ok();
}

struct Record {
    std::uint16_t type = 0;
    std::uint16_t dns_class = 0;
    std::uint32_t ttl = 0;
    Bytes data;
};

bool read_record(Cursor& in, Record& record) {
    if (!skip_name(in)) {
        return false;
    }
    record.type = in.u16be();
    record.dns_class = in.u16be();
    record.ttl = in.u32be();
    record.data = in.take(in.u16be());
    return in.ok();
}

/// How a byte of a label is written.
enum class Written : std::uint8_t { kPlain, kEscaped, kDecimal };

constexpr std::array<Written, 256> written_table() {
    std::array<Written, 256> table{};
    for (size_t byte = 0; byte < table.size(); ++byte) {
        table.at(byte) = byte > 0x20 && byte < 0x7f ? Written::kPlain : Written::kDecimal;
    }
    for (const char c : std::string_view(".\\\";()@$")) {
        table.at(static_cast<std::uint8_t>(c)) = Written::kEscaped;
    }
    return table;
}

constexpr std::array<Written, 256> kWritten = written_table();

void append_byte(std::string& out, std::uint8_t byte) {
    if (kWritten.at(byte) == Written::kDecimal) {
        fmt::format_to(std::back_inserter(out), "\\{:03}", byte);
        return;
    }
    if (kWritten.at(byte) == Written::kEscaped) {
        out += '\\';
    }
    out += static_cast<char>(byte);
}

void append_label(std::string& out, Bytes label) {
    const bool plain = std::ranges::all_of(
        label, [](std::uint8_t byte) { return kWritten.at(byte) == Written::kPlain; });
    if (plain) {
        out.append(reinterpret_cast<const char*>(label.data()), label.size());
    } else {
        std::ranges::for_each(label, [&](std::uint8_t byte) { append_byte(out, byte); });
    }
    out += '.';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The byte that "\\DDD" or "\\c" at the beginning of `text` stands for; takes it off. Nothing
/// where the escape is broken.
std::optional<std::uint8_t> take_escape(std::string_view& text) {
    text.remove_prefix(1);
    if (text.empty()) {
        return std::nullopt;
    }
    if (!is_digit(text[0])) {
        const char c = text[0];
        text.remove_prefix(1);
        return static_cast<std::uint8_t>(c);
    }
    if (text.size() < 3 || !is_digit(text[1]) || !is_digit(text[2])) {
        return std::nullopt;
    }
    const int value = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
    text.remove_prefix(3);
    return value < 256 ? std::optional(static_cast<std::uint8_t>(value)) : std::nullopt;
}

constexpr size_t kMaxLabel = 63;

/// Takes a label and its dot off `text` and appends it to `name`, which keeps room for the root.
NameError take_label(std::string_view& text, WireName& name) {
    const size_t length_at = name.size++;
    while (!text.empty() && text[0] != '.') {
        auto byte = static_cast<std::uint8_t>(text[0]);
        if (byte == '\\') {
            const auto escaped = take_escape(text);
            if (!escaped) {
                return NameError::kEscape;
            }
            byte = *escaped;
        } else {
            text.remove_prefix(1);
        }
        if (name.size >= name.bytes.size() - 1) {
            return NameError::kLongName;
        }
        name.bytes.at(name.size++) = byte;
    }
    const size_t length = name.size - length_at - 1;
    name.bytes.at(length_at) = static_cast<std::uint8_t>(length);
    text.remove_prefix(text.empty() ? 0 : 1);
    return length == 0          ? NameError::kEmptyLabel
           : length > kMaxLabel ? NameError::kLongLabel
                                : NameError::kNone;
}

} // namespace

std::optional<DnsQuestion> parse_question(Bytes message) {
    const auto header = parse_header(message);
    if (!header || header->questions == 0) {
        return std::nullopt;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    for (std::uint8_t length = in.u8(); in.ok() && length != 0; length = in.u8()) {
        if ((length & 0xc0U) != 0) {
            return std::nullopt;
        }
        in.skip(length);
    }
    const size_t name_size = in.position() - std::min(in.position(), kDnsHeaderSize);
    DnsQuestion question;
    question.type = in.u16be();
    question.dns_class = in.u16be();
    if (!in.ok() || name_size > kMaxNameSize) {
        return std::nullopt;
    }
    question.name = message.subspan(kDnsHeaderSize, name_size);
    question.raw = message.subspan(kDnsHeaderSize, name_size + 4);
    return question;
}

std::optional<DnsEdns> parse_edns(Bytes message) {
    const auto header = parse_header(message);
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    if (!header || header->additionals == 0 || !skip_questions(in, header->questions)) {
        return std::nullopt;
    }
    const unsigned before = unsigned{header->answers} + header->authorities;
    Record record;
    for (unsigned i = 0; i < before + header->additionals; ++i) {
        if (!read_record(in, record)) {
            return std::nullopt;
        }
        if (i >= before && record.type == kTypeOpt) {
            return DnsEdns{.udp_size = record.dns_class,
                           .extended_rcode = static_cast<std::uint8_t>(record.ttl >> 24U),
                           .version = static_cast<std::uint8_t>(record.ttl >> 16U),
                           .dnssec_ok = (record.ttl & 0x8000U) != 0,
                           .options = record.data};
        }
    }
    return std::nullopt;
}

MessageEnd message_end(Bytes message, size_t size) {
    const auto header = parse_header(message);
    if (!header) {
        return MessageEnd::kBroken;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    bool good = skip_questions(in, header->questions);
    const unsigned records = unsigned{header->answers} + header->authorities + header->additionals;
    Record record;
    for (unsigned i = 0; good && !header->truncated() && i < records; ++i) {
        good = read_record(in, record);
    }
    if (good) {
        const bool more = !header->truncated() && in.position() < size;
        return more ? MessageEnd::kTrailing : MessageEnd::kWhole;
    }
    const bool ran_out = !in.ok();
    return ran_out && message.size() < size ? MessageEnd::kWhole : MessageEnd::kBroken;
}

bool same_question(const DnsQuestion& a, const DnsQuestion& b) {
    return a.type == b.type && a.dns_class == b.dns_class && same_name(a.name, b.name);
}

bool same_name(Bytes a, Bytes b) { return std::ranges::equal(a, b, {}, Lower{}, Lower{}); }

bool ends_in(Bytes name, Bytes suffix) {
    size_t at = 0;
    while (name.size() - at > suffix.size()) {
        at += size_t{1} + name[at];
        if (at > name.size()) {
            return false;
        }
    }
    return name.size() - at == suffix.size() &&
           std::ranges::equal(name.subspan(at), suffix, {}, Lower{});
}

void append_name_text(std::string& out, Bytes name) {
    const size_t before = out.size();
    Cursor in(name);
    for (std::uint8_t length = in.u8(); in.ok() && length != 0; length = in.u8()) {
        append_label(out, in.take(length));
    }
    if (out.size() == before) {
        out += '.';
    }
}

std::string name_text(Bytes name) {
    std::string out;
    append_name_text(out, name);
    return out;
}

NameError parse_name(std::string_view text, WireName& name) {
    name.size = 0;
    if (text.empty()) {
        return NameError::kEmpty;
    }
    if (text == ".") {
        text = {};
    }
    while (!text.empty()) {
        if (name.size >= name.bytes.size() - 1) {
            return NameError::kLongName;
        }
        if (const NameError error = take_label(text, name); error != NameError::kNone) {
            return error;
        }
    }
    name.bytes.at(name.size++) = 0;
    return NameError::kNone;
}

std::optional<WireBytes> parse_name(std::string_view text) {
    WireName name;
    if (parse_name(text, name) != NameError::kNone) {
        return std::nullopt;
    }
    return WireBytes(name.view().begin(), name.view().end());
}

bool read_name(Cursor& in, Bytes message, WireName& name) {
    name.size = 0;
    Cursor behind(message); // a pointer
    Cursor* at = &in;
    size_t start = in.position();
    for (;;) {
        const std::uint8_t length = at->u8();
        if ((length & 0xc0U) == 0xc0U) {
            const size_t target = (length & 0x3fU) << 8U | at->u8();
            if (!at->ok() || target >= start) {
                return false;
            }
            behind.seek(target);
            at = &behind;
            start = target;
            continue;
        }
        const Bytes label = at->take(length);
        if (!at->ok() || length > kMaxLabel || name.size + length + 1U > kMaxNameSize) {
            return false;
        }
        name.bytes.at(name.size++) = length;
        std::ranges::copy(label, name.bytes.begin() + name.size);
        name.size = static_cast<std::uint8_t>(name.size + length);
        if (length == 0) {
            return true;
        }
    }
}

std::string_view name_error_text(NameError error) {
    switch (error) {
    case NameError::kNone:
        break;
    case NameError::kEmpty:
        return "is empty";
    case NameError::kEmptyLabel:
        return "has an empty label";
    case NameError::kLongLabel:
        return "has a label of over 63 bytes";
    case NameError::kLongName:
        return "takes over 255 bytes";
    case NameError::kEscape:
        return R"(has a broken escape (\DDD up to \255, or \ and a character))";
    }
    return "is good";
}

void build_query(std::vector<std::uint8_t>& out, const QueryShape& shape, std::string_view labels) {
    constexpr size_t kQuestionTail = 5; // root label, type, class
    constexpr size_t kOpt = 11;
    const size_t question = kDnsHeaderSize + labels.size() + kQuestionTail;
    out.assign(question + (shape.edns ? kOpt : 0), 0);
    store16(out.data(), shape.id);
    out[2] = shape.recursion_desired ? 1 : 0;
    out[3] = shape.checking_disabled ? 0x10 : 0;
    out[5] = 1; // one question
    out[11] = shape.edns ? 1 : 0;
    std::ranges::copy(labels, out.begin() + kDnsHeaderSize);
    store16(out.data() + question - 4, shape.type);
    store16(out.data() + question - 2, 1);
    if (shape.edns) {
        std::uint8_t* const opt = out.data() + question;
        store16(opt + 1, kTypeOpt);
        store16(opt + 3, shape.edns_size);
        opt[7] = shape.dnssec_ok ? 0x80 : 0; // first bit of the flags (RFC 3225)
    }
}

std::uint16_t full_rcode(Bytes reply) {
    const auto header = parse_header(reply);
    if (!header) {
        return 0xffff;
    }
    const auto edns = parse_edns(reply);
    const unsigned upper = edns ? edns->extended_rcode : 0U;
    return static_cast<std::uint16_t>((upper << 4U) | header->rcode());
}

} // namespace reprise
