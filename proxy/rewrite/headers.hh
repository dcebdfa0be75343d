#pragma once
// Finds the transport header of an IP packet without trusting any of its fields.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::proxy {

// What became of one packet that the proxy read. Every packet ends in exactly one of these.

enum class Verdict : std::uint8_t {
    kRewritten,
    kPassed,      ///< nothing to rewrite: the packet goes on as it is
    kUnmapped,    ///< no server of the emulated hierarchy has this address
    kForeign,     ///< not DNS: another protocol or port
    kLinkLocal,   ///< the kernel's own IPv6 multicast (router and group messages) on the device
    kWrongSource, ///< not sent from the resolver's address, so that no answer could come back
    kShort,       ///< ends before its headers do
    kBadVersion,
    kBadLength, ///< a length field that contradicts the packet
    kBadOption, ///< IPv4 options that overrun, or that send the packet elsewhere first
    kBadExtension,
    kBadFragment,
    kBadTransport, ///< UDP or TCP header that contradicts the packet
};

inline constexpr size_t kVerdicts = 13;

/// As in statistics, in the order of the enumeration.
inline constexpr std::array<std::string_view, kVerdicts> kVerdictNames{
    "rewritten",     "passed",       "unmapped",     "foreign",    "link_local",
    "wrong_source",  "short",        "bad_version",  "bad_length", "bad_option",
    "bad_extension", "bad_fragment", "bad_transport"};

/// Whether the packet's own fields are at fault.
constexpr bool is_malformed(Verdict verdict) { return verdict >= Verdict::kShort; }

/// Whether the packet goes on.
constexpr bool goes_on(Verdict verdict) {
    return verdict == Verdict::kRewritten || verdict == Verdict::kPassed;
}

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

/// Of a packet whose headers are whole.
inline IpAddress destination_of(Bytes packet) {
    return packet[0] >> 4U == 4 ? IpAddress::v4(&packet[16]) : IpAddress::v6(&packet[24]);
}

/// Checks what the rewriting relies on of a UDP or TCP header: kPassed, or what is wrong. Later
/// fragments and other protocols pass.
Verdict check_transport(Bytes packet, const Headers& headers);

} // namespace reprise::proxy
