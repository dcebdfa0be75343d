#include "core/base/json.hh"

#include <map>
#include <string>

namespace reprise {

std::string json_text(const Json& value, int indent) {
    return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json by_key(const Json& value) {
    if (value.is_array()) {
        return list_of(value, by_key);
    }
    if (!value.is_object()) {
        return value;
    }
    std::map<std::string, Json> members;
    for (const auto& [key, member] : value.items()) {
        members.emplace(key, by_key(member));
    }
    return members;
}

} // namespace reprise
