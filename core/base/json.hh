#pragma once
// JSON of results, reports and errors. Costs a second to compile: for .cc files only.

#include <functional>
#include <nlohmann/json.hpp> // IWYU pragma: export
#include <string>
#include <string_view>

namespace reprise {

/// Keys stay in the order of insertion.
using Json = nlohmann::ordered_json;

/// One line without its end, or with `indent` lines that are indented by so many spaces a level.
/// Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& value, int indent = -1);

/// The same with the keys of each object in alphabetical order.
Json by_key(const Json& value);

/// Null for an empty text.
inline Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

/// A list of what `make` gives for each of `all`.
template <typename Range, typename Make> Json list_of(const Range& all, Make make) {
    Json list = Json::array();
    for (const auto& one : all) {
        list.emplace_back(std::invoke(make, one));
    }
    return list;
}

// Structs that list their members once. Such a struct has
//     template <typename Visit> static void fields(Visit visit);
// which calls visit(name, pointer to member, help) for each in turn; sums, files, messages and
// descriptions are made of that list.

/// Name to value, in the order of the list. Name `Fields` where a struct inherits several lists.
template <typename Fields> Json fields_json(const Fields& values) {
    Json out = Json::object();
    Fields::fields([&](std::string_view name, auto member, std::string_view) {
        out[std::string(name)] = values.*member;
    });
    return out;
}

/// Name to help, in the order of the list.
template <typename Fields> Json describe_fields() {
    Json out = Json::object();
    Fields::fields(
        [&](std::string_view name, auto, std::string_view help) { out[std::string(name)] = help; });
    return out;
}

} // namespace reprise
