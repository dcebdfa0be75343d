#pragma once
// What became of one packet that the proxy read. Every packet ends in exactly one of these.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::proxy {

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

} // namespace reprise::proxy
