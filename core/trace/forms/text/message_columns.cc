#include "core/trace/forms/text/message_columns.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace reprise::trace {
namespace {

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

void set_edns(MessageColumns& columns, const DnsEdns& edns) {
    columns.edns = true;
    columns.dnssec_ok = edns.dnssec_ok;
    columns.version = edns.version;
    columns.udp_size = edns.udp_size;
    columns.options = whole_options(edns.options) ? edns.options : Bytes();
}

/// The OPT record that `rest`, the additional section, is; false where it is anything else or has
/// what no column says.
bool read_lone_opt(Bytes rest, MessageColumns& columns) {
    Cursor in(rest);
    const bool opt = in.u8() == 0 && in.u16be() == kTypeOpt;
    DnsEdns edns;
    edns.udp_size = in.u16be();
    const bool extended_rcode = in.u8() != 0;
    edns.version = in.u8();
    const std::uint16_t flags = in.u16be();
    edns.dnssec_ok = flags == 0x8000;
    edns.options = in.take(in.u16be());
    if (!opt || !in.ok() || in.left() > 0 || extended_rcode || (flags & 0x7fffU) != 0) {
        return false;
    }
    set_edns(columns, edns);
    return whole_options(edns.options);
}

/// Whether the header says no more than its columns do.
bool plain_header(const DnsHeader& header) {
    return !header.is_response() && header.rcode() == 0 && header.questions == 1 &&
           header.answers == 0 && header.authorities == 0 && header.additionals <= 1;
}

char* put16(char* at, unsigned value) {
    at[0] = static_cast<char>(value >> 8U);
    at[1] = static_cast<char>(value);
    return at + 2;
}

char* put_bytes(char* at, Bytes bytes) {
    if (!bytes.empty()) {
        std::memcpy(at, bytes.data(), bytes.size());
    }
    return at + bytes.size();
}

char* put_opt(char* at, const MessageColumns& columns) {
    *at++ = 0;
    at = put16(put16(at, kTypeOpt), columns.udp_size);
    *at++ = 0;
    *at++ = static_cast<char>(columns.version);
    at = put16(at, columns.dnssec_ok ? 0x8000U : 0U);
    return put_bytes(put16(at, static_cast<unsigned>(columns.options.size())), columns.options);
}

} // namespace

bool read_columns(Bytes message, MessageColumns& columns) {
    columns = {};
    const auto header = parse_header(message);
    if (!header) {
        return false;
    }
    columns.id = header->id;
    columns.flags = header->flags & kFlagBits;
    columns.opcode = header->opcode();
    const auto question = parse_question(message);
    if (question) {
        columns.name = question->name;
        columns.type = question->type;
        columns.dns_class = question->dns_class;
    }
    if (question && plain_header(*header)) {
        const Bytes rest = message.subspan(kDnsHeaderSize + question->raw.size());
        if (header->additionals == 0 ? rest.empty() : read_lone_opt(rest, columns)) {
            return true;
        }
    }
    if (const auto edns = parse_edns(message)) {
        set_edns(columns, *edns);
    }
    return false;
}

size_t message_size(const MessageColumns& columns) {
    return kDnsHeaderSize + columns.name.size() + 4 +
           (columns.edns ? kOptSize + columns.options.size() : 0);
}

void append_message(std::vector<std::uint8_t>& out, const MessageColumns& columns) {
    const size_t start = out.size();
    out.resize(start + message_size(columns));
    char* at = reinterpret_cast<char*>(out.data()) + start;
    at = put16(at, columns.id);
    at = put16(at, columns.flags | static_cast<unsigned>(columns.opcode << 11U));
    for (const unsigned count : {1U, 0U, 0U, columns.edns ? 1U : 0U}) {
        at = put16(at, count);
    }
    at = put_bytes(at, columns.name);
    at = put16(put16(at, columns.type), columns.dns_class);
    if (columns.edns) {
        put_opt(at, columns);
    }
}

} // namespace reprise::trace
