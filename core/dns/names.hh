#pragma once
// Mnemonics of the IANA DNS parameters.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {

inline constexpr std::uint16_t kTypeA = 1;
inline constexpr std::uint16_t kTypeNs = 2;
inline constexpr std::uint16_t kTypeSoa = 6;
inline constexpr std::uint16_t kTypePtr = 12;
inline constexpr std::uint16_t kTypeSrv = 33;
inline constexpr std::uint16_t kTypeDs = 43;
inline constexpr std::uint16_t kTypeDnskey = 48;

/// "AAAA", or "TYPE4711" (RFC 3597) where there is no name.
std::string type_name(std::uint16_t type);

/// The reverse, without regard to case; "TYPE4711" is understood.
std::optional<std::uint16_t> type_number(std::string_view name);

/// "NXDOMAIN", or "RCODE77".
std::string rcode_name(std::uint16_t rcode);

/// "QUERY", or "OPCODE9".
std::string opcode_name(std::uint8_t opcode);

} // namespace reprise::mutator
