#pragma once
#include <string>
#include <string_view>

namespace reprise {

/// `text` as a JSON string with its quotes.
std::string json_string(std::string_view text);

} // namespace reprise
