#pragma once
// Forced truncation: long replies over UDP become truncated ones, so that their clients come over
// TCP.

#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::proxy::stateless {

/// Cuts an IP packet with a UDP reply of more than `limit` bytes, in place, to its header with TC,
/// its question and its OPT; the packet that is left, with its checksums. Of a reply that the
/// server's host has cut into fragments of IPv6 the first becomes that packet, and of the others
/// nothing is left. Any other packet stays as it is.
std::span<std::uint8_t> truncate_reply(std::span<std::uint8_t> packet, size_t limit);

} // namespace reprise::proxy::stateless
