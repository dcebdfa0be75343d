#include "core/dns/message.hh"

#include "core/dns/name.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise {
namespace {

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

} // namespace

std::optional<DnsQuestion> parse_question(Bytes message) {
    const auto header = parse_header(message);
    if (!header || header->questions == 0) {
        return std::nullopt;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    DnsQuestion question;
    question.name = take_name(in);
    question.type = in.u16be();
    question.dns_class = in.u16be();
    if (question.name.empty() || !in.ok()) {
        return std::nullopt;
    }
    question.raw = message.subspan(kDnsHeaderSize, question.name.size() + 4);
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

void build_query(std::vector<std::uint8_t>& out, const QueryShape& shape, Bytes name) {
    constexpr size_t kQuestionTail = 4; // type, class
    constexpr size_t kOpt = 11;
    const size_t question = kDnsHeaderSize + name.size() + kQuestionTail;
    out.assign(question + (shape.edns ? kOpt : 0), 0);
    store16(out.data(), shape.id);
    out[2] = shape.recursion_desired ? 1 : 0;
    out[3] = shape.checking_disabled ? 0x10 : 0;
    out[5] = 1; // one question
    out[11] = shape.edns ? 1 : 0;
    std::ranges::copy(name, out.begin() + kDnsHeaderSize);
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
