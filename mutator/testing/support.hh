#pragma once
// What the tests of this folder share.

#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/testing/support.hh" // IWYU pragma: export
#include "mutator/commands.hh"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {

inline constexpr Nanoseconds kStart = 1'475'762'100 * kSecond;

inline std::string file_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

/// What `reprise-mutator` does with these words; its exit status.
inline int run_words(const std::vector<std::string>& words) {
    int status = 0;
    Command app;
    add_commands(app, status);
    app.parse(words);
    return status;
}

} // namespace reprise::mutator
