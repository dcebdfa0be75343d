#pragma once
// Values as the text form's cells and back. Parsers take a whole cell, yield false where it is
// nothing of the kind, and then leave the value undefined.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

inline constexpr std::string_view kNoCell = "-";

void append_number(std::string& out, std::uint64_t value);

/// Seconds since the epoch with up to nine decimals.
bool parse_time(std::string_view cell, Nanoseconds& out);
void append_time(std::string& out, Nanoseconds time);

/// As IpAddress::parse() and text(), without their copies.
bool parse_address(std::string_view cell, IpAddress& out);
void append_address(std::string& out, const IpAddress& address);

/// By transport_name(), in any case.
bool parse_transport(std::string_view cell, Transport& out);

/// aa,tc,rd,ra,z,ad,cd in any order and case, as bits of the header's second word.
bool parse_flags(std::string_view cell, std::uint16_t& out);
void append_flags(std::string& out, std::uint16_t flags); ///< "-" for none

/// EDNS options, "NSID:;COOKIE:0011223344556677", as they stand in a message. Replaces `out`.
bool parse_options(std::string_view cell, std::vector<std::uint8_t>& out);
void append_options(std::string& out, Bytes options); ///< "-" for none; they must be whole

/// A cell as it is named in an error: quoted, without control characters, not longer than a line.
std::string quoted_cell(std::string_view cell);

} // namespace reprise::trace
