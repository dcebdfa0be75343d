#include "core/dns_message.hh"

#include "core/bytes.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

namespace reprise {
namespace {

constexpr std::uint16_t kTypeOpt = 41;
constexpr size_t kMaxNameSize = 255;

/// Skips a possibly compressed name. A pointer ends it; it is not followed.
bool skip_name(Cursor& in) {
    while (in.ok()) {
        const std::uint8_t length = in.u8();
        if ((length & 0xc0U) == 0xc0U) {
            in.skip(1);
            return in.ok();
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

struct RecordView {
    std::uint16_t type = 0;
    std::uint16_t dns_class = 0;
    std::uint32_t ttl = 0;
    Bytes data;
};

bool read_record(Cursor& in, RecordView& record) {
    if (!skip_name(in)) {
        return false;
    }
    record.type = in.u16be();
    record.dns_class = in.u16be();
    record.ttl = in.u32be();
    record.data = in.take(in.u16be());
    return in.ok();
}

std::uint8_t lower(std::uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<std::uint8_t>(byte + 32) : byte;
}

void append_label(std::string& out, Bytes label) {
    for (const std::uint8_t byte : label) {
        if (byte == '.' || byte == '\\' || byte == '"' || byte == ';' || byte == '(' ||
            byte == ')' || byte == '@' || byte == '$') {
            out += '\\';
            out += static_cast<char>(byte);
        } else if (byte > 0x20 && byte < 0x7f) {
            out += static_cast<char>(byte);
        } else {
            fmt::format_to(std::back_inserter(out), "\\{:03}", byte);
        }
    }
    out += '.';
}

} // namespace

std::optional<DnsHeader> parse_header(Bytes message) {
    Cursor in(message);
    DnsHeader header;
    header.id = in.u16be();
    header.flags = in.u16be();
    header.questions = in.u16be();
    header.answers = in.u16be();
    header.authorities = in.u16be();
    header.additionals = in.u16be();
    return in.ok() ? std::optional(header) : std::nullopt;
}

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
    RecordView record;
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

bool same_question(const DnsQuestion& a, const DnsQuestion& b) {
    return a.type == b.type && a.dns_class == b.dns_class &&
           std::ranges::equal(a.name, b.name, {}, lower, lower);
}

std::string name_text(Bytes name) {
    std::string out;
    Cursor in(name);
    for (std::uint8_t length = in.u8(); in.ok() && length != 0; length = in.u8()) {
        append_label(out, in.take(length));
    }
    return out.empty() ? "." : out;
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
