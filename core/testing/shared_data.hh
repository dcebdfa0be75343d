#pragma once
// Where tests find real traces.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace reprise {

/// A file of the collection of real traces, which is found by REPRISE_SHARED_DATA or beside the
/// source tree; tests are skipped where it is missing.
inline std::filesystem::path shared_file(const std::string& name) {
    const char* given = std::getenv("REPRISE_SHARED_DATA");
    return std::filesystem::path(given != nullptr ? given : REPRISE_SHARED_DEFAULT) / name;
}

} // namespace reprise
