#pragma once
#include "core/base/bytes.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// Hexadecimal digits in any case, two a byte; none is good as well. Appends to `out`; false where
/// it is something else.
bool parse_hex(std::string_view text, std::vector<std::uint8_t>& out);

/// In lower case.
void append_hex(std::string& out, Bytes bytes);

} // namespace reprise
