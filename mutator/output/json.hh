#pragma once
// Writes small JSON objects, keys in the order they are added.

#include "core/wire/result_file.hh"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

class JsonObject {
public:
    /// A number, true or false.
    template <typename T> JsonObject& number(std::string_view key, T value) {
        start(key);
        fmt::format_to(std::back_inserter(text_), "{}", value);
        return *this;
    }

    JsonObject& string(std::string_view key, std::string_view value) {
        start(key);
        text_ += json_string(value);
        return *this;
    }

    /// `value` is JSON already.
    JsonObject& raw(std::string_view key, std::string_view value) {
        start(key);
        text_ += value;
        return *this;
    }

    [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

private:
    void start(std::string_view key) {
        text_ += text_.empty() ? "" : ", ";
        text_ += json_string(key);
        text_ += ": ";
    }

    std::string text_;
};

/// A list of texts.
inline std::string json_strings(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) {
        out += (out.empty() ? "" : ", ") + json_string(text);
    }
    return "[" + out + "]";
}

} // namespace reprise::mutator
