#pragma once
// JSON of results, reports and errors. Who builds a value includes <nlohmann/json.hpp> too.

#include <nlohmann/json_fwd.hpp>
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
