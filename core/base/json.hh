#pragma once
// JSON of results, reports and errors. Costs a second to compile: for .cc files only.

#include <nlohmann/json.hpp> // IWYU pragma: export
#include <string>
#include <string_view>

namespace reprise {

/// Keys stay in the order of insertion.
using Json = nlohmann::ordered_json;

/// One line without its end. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& value);

/// Null for an empty text.
Json text_or_null(std::string_view text);

} // namespace reprise
