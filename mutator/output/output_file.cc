#include "mutator/output/output_file.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace reprise::mutator {

void check_interrupt() {
    if (noted_signal() != 0) {
        throw Error("stopped by a signal; the unfinished output was removed");
    }
}

int status_of(const std::string& path, const std::string& trouble, std::string_view done) {
    if (trouble.empty()) {
        return 0;
    }
    fmt::print(stderr, "reprise-mutator: {}: {}; what was read before is {}\n", path, trouble,
               done);
    return 1;
}

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

namespace {

FileDescriptor open_standard_output(std::string_view option) {
    if (::isatty(STDOUT_FILENO) != 0) {
        throw UsageError(fmt::format(
            "standard output is a terminal; send it to a pipe or give {} FILE", option));
    }
    return FileDescriptor(check(::dup(STDOUT_FILENO), "dup standard output"));
}

FileDescriptor open_file(const std::string& name, const std::string& working,
                         std::string_view option) {
    const int fd = ::open(working.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        throw_unwritable(name, errno, option);
    }
    return FileDescriptor(fd);
}

} // namespace

OutputFile::OutputFile(const std::string& path, std::string_view option)
    : name_(path == "-" ? "standard output" : path) {
    if (path == "-") {
        file_ = open_standard_output(option);
    } else {
        path_.emplace(path, option);
        file_ = open_file(name_, path_->working(), option);
    }
}

void OutputFile::fail(int error_number) const {
    const char* const hint = error_number == EPIPE ? "the program that reads it has ended"
                                                   : "free some space or give another place";
    throw Error(fmt::format("write {}: {}; {}", name_, std::strerror(error_number), hint));
}

void OutputFile::write(std::string_view bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
        const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) {
            fail(errno);
        }
        bytes.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
    }
}

void OutputFile::finish() {
    // Some file systems tell of a full disk only here.
    if (::close(file_.release()) != 0) {
        fail(errno);
    }
    if (path_) {
        path_->commit();
    }
}

} // namespace reprise::mutator
