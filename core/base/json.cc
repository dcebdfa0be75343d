#include "core/base/json.hh"

#include <string>
#include <string_view>

namespace reprise {

std::string json_text(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

} // namespace reprise
