#include "core/trace/reassembly/plausible.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::trace {
namespace {

bool plausible_flags(const DnsHeader& header) {
    const std::uint8_t opcode = header.opcode();
    const bool known_opcode = opcode <= 2 || opcode == 4 || opcode == 5;
    const bool reserved_bit = (header.flags & 0x0040U) != 0;
    return known_opcode && !reserved_bit && (header.is_response() || header.rcode() == 0);
}

/// Counts of real messages: one question, except that the later messages of a zone transfer may
/// have none.
bool plausible_counts(const DnsHeader& header, size_t size) {
    // Every record takes at least 11 bytes.
    const size_t records = size_t{header.answers} + header.authorities + header.additionals;
    if (header.questions > 1 || records * 11 > size - kDnsHeaderSize) {
        return false;
    }
    if (header.is_response()) {
        return header.questions == 1 || header.answers > 0;
    }
    return header.questions == 1 && (header.opcode() == 5 || header.answers <= 1) &&
           header.additionals <= 4;
}

bool plausible_class(std::uint16_t dns_class) {
    return dns_class == 1 || dns_class == 3 || dns_class == 4 || dns_class >= 254;
}

/// Name, type and class; compression only where `pointers` (a record's owner).
bool plausible_owner(Cursor& in, bool pointers) {
    size_t size = 0;
    for (std::uint8_t length = in.u8(); length != 0 && in.ok(); length = in.u8()) {
        size += length + 1U;
        if (length >= 0xc0 && pointers) {
            in.skip(1);
            break;
        }
        if (length > 63 || size > 254) {
            return false;
        }
        in.skip(length);
    }
    const std::uint16_t type = in.u16be();
    const std::uint16_t dns_class = in.u16be();
    return !in.ok() || (type != 0 && plausible_class(dns_class));
}

} // namespace

Plausible begins_message(Bytes stream) {
    Cursor prefix(stream);
    const size_t size = prefix.u16be();
    if (!prefix.ok()) {
        return Plausible::kNeedMore;
    }
    if (size < kDnsHeaderSize + 5) {
        return Plausible::kNo;
    }
    const Bytes message = prefix.take(std::min(size, prefix.left()));
    const auto header = parse_header(message);
    if (!header) {
        return Plausible::kNeedMore;
    }
    if (!plausible_flags(*header) || !plausible_counts(*header, size)) {
        return Plausible::kNo;
    }
    Cursor in(message);
    in.skip(kDnsHeaderSize);
    if (!plausible_owner(in, header->questions == 0)) {
        return Plausible::kNo;
    }
    if (in.ok()) {
        return Plausible::kYes;
    }
    return message.size() < size ? Plausible::kNeedMore : Plausible::kNo;
}

} // namespace reprise::trace
