#pragma once
// What a row of text can say of a DNS message: header, one question, EDNS. Usual queries are
// nothing else, and are the same bytes again when they are put together from it.

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::trace {

/// Bits of the header's second word that have columns of their own: AA, TC, RD, RA, Z, AD, CD.
inline constexpr std::uint16_t kFlagBits = 0x07f0;

/// Name and options borrow.
struct MessageColumns {
    std::uint16_t id = 0;
    std::uint16_t flags = 0; ///< within kFlagBits
    std::uint8_t opcode = 0; ///< 0 to 15
    Bytes name;              ///< uncompressed, with the root; empty where there is no question
    std::uint16_t type = 0;
    std::uint16_t dns_class = 0;
    bool edns = false;
    bool dnssec_ok = false;
    std::uint8_t version = 0;
    std::uint16_t udp_size = 0;
    Bytes options; ///< whole options one after the other
};

/// Reads as much as `message` has, at least a header. True where append_message() makes the same
/// bytes of it; else something is in the message that has no column.
bool read_columns(Bytes message, MessageColumns& columns);

/// The message's size as append_message() makes it; it may exceed kMaxMessage.
size_t message_size(const MessageColumns& columns);

/// Appends the message to `out`. There must be a name, and options of at most 65,535 bytes.
void append_message(std::vector<std::uint8_t>& out, const MessageColumns& columns);

} // namespace reprise::trace
