#include "core/base/error.hh"
#include "core/base/whole_file.hh"
#include "zonebuilder/commands.hh"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise::zonebuilder {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path, const std::string& report, std::string_view ending)
    : path_(std::move(path)) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) {
        throw Error(fmt::format("cannot make {}: {}; give -o another folder", path_.string(),
                                error.message()));
    }
    const bool former = fs::remove(path_ / report, error);
    if (former && !ending.empty()) {
        for (auto entry = fs::directory_iterator(path_, error);
             !error && entry != fs::directory_iterator(); entry.increment(error)) {
            if (entry->path().string().ends_with(ending)) {
                fs::remove(entry->path(), error);
            }
        }
    }
    if (error) {
        throw Error(fmt::format("cannot clear {} of what was made before: {}; give -o another "
                                "folder",
                                path_.string(), error.message()));
    }
}

void OutputFolder::write(const std::string& name, std::string_view text) const {
    try {
        write_whole(path_ / name, text, Durable::kNo);
    } catch (const SystemError& error) {
        throw Error(fmt::format("cannot write {}: {}; give -o a folder with rights and room",
                                (path_ / name).string(), error.code().message()));
    }
}

} // namespace reprise::zonebuilder
