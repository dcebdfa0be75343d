#pragma once
// Finds the transport header of an IP packet without trusting any of its fields.

#include "core/base/bytes.hh"
#include "proxy/rewrite/verdict.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::proxy {

inline constexpr std::uint8_t kTcp = 6;
inline constexpr std::uint8_t kUdp = 17;
inline constexpr std::uint8_t kDestinationOptions = 60; ///< an extension header of IPv6

/// What the headers of one packet say. Offsets are from the packet's first byte and lie inside it.
struct Headers {
    Verdict fault =
        Verdict::kPassed; ///< kPassed, or what is wrong; the rest counts for nothing then
    bool v6 = false;
    bool later_fragment = false; ///< has no transport header
    bool whole = true;           ///< not a fragment at all
    std::uint8_t protocol = 0;   ///< of the transport header
    std::uint16_t transport = 0; ///< where it begins

    /// Where the source address begins; the destination follows it.
    [[nodiscard]] size_t addresses() const { return v6 ? 8 : 12; }

    /// Of one address.
    [[nodiscard]] size_t address_size() const { return v6 ? 16 : 4; }
};

/// Reads IPv4 with its options, or IPv6 with its extension headers, up to the transport header. The
/// packet must be exactly as long as it says.
Headers read_headers(Bytes packet);

/// Checks what the rewriting relies on of a UDP or TCP header: kPassed, or what is wrong. Later
/// fragments and other protocols pass.
Verdict check_transport(Bytes packet, const Headers& headers);

} // namespace reprise::proxy
