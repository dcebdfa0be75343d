#include "mutator/output_path.hh"

#include "core/error.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace reprise::mutator {

OutputPath::OutputPath(std::string path) : path_(std::move(path)), working_(path_) {
    struct stat facts{};

    const bool exists = ::stat(path_.c_str(), &facts) == 0;
    if (exists && S_ISDIR(facts.st_mode)) {
        throw_unwritable(path_, EISDIR);
    }
    if (!exists || S_ISREG(facts.st_mode)) {
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

void throw_unwritable(const std::string& path, int error_number) {
    throw UsageError(fmt::format(
        "cannot write {}: {}; give -o a file name in a folder that exists and can be written", path,
        std::strerror(error_number)));
}

} // namespace reprise::mutator
