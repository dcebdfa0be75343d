#include "mutator/output/output_path.hh"

#include "core/base/error.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace reprise::mutator {
namespace {

namespace fs = std::filesystem;

/// Names there stand for files that are open already: "beside" them there is nothing.
bool in_proc(const fs::path& path) { return path.native().starts_with("/proc/"); }

/// What a path leads to, whether that exists or not; a path in /proc where it leads there.
fs::path follow(const std::string& name) {
    constexpr int kMostLinks = 40; // as the kernel
    fs::path path = name;
    std::error_code error;
    for (int i = 0; i < kMostLinks; ++i) {
        path = fs::weakly_canonical(fs::absolute(path).parent_path(), error) / path.filename();
        if (error || in_proc(path) || !fs::is_symlink(fs::symlink_status(path, error))) {
            break;
        }
        path = path.parent_path() / fs::read_symlink(path, error);
    }
    return path;
}

} // namespace

OutputPath::OutputPath(const std::string& path, std::string_view option)
    : path_(path), working_(path) {
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (fs::is_directory(status)) {
        throw_unwritable(path, EISDIR, option);
    }
    const fs::path target = follow(path);
    if ((!fs::exists(status) || fs::is_regular_file(status)) && !in_proc(target)) {
        path_ = working_ = target;
        temporary_ = true;
        working_ += ".partial";
        std::remove(working_.c_str()); // left by a run that was killed
    }
}

OutputPath::~OutputPath() {
    if (temporary_) {
        std::remove(working_.c_str());
    }
}

void OutputPath::commit() {
    if (temporary_ && std::rename(working_.c_str(), path_.c_str()) != 0) {
        throw SystemError("rename " + working_);
    }
    temporary_ = false;
}

bool same_output(const std::string& a, const std::string& b) {
    if (a == "-" || b == "-") {
        return a == b;
    }
    std::error_code none;
    const fs::path target = follow(a);
    return target == follow(b) || (fs::is_regular_file(target, none) && fs::equivalent(a, b, none));
}

void throw_unwritable(const std::string& path, int error_number, std::string_view option) {
    throw UsageError(fmt::format(
        "cannot write {}: {}; give {} a file name in a folder that exists and can be written", path,
        std::strerror(error_number), option));
}

} // namespace reprise::mutator
