#include "mutator/output/output_file.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "mutator/output/output_path.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

namespace reprise::mutator {
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
