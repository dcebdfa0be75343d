#include "core/base/fd.hh"

#include "core/base/error.hh"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace reprise {

void FileDescriptor::reset() {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

size_t raise_descriptor_limit() {
    rlimit limit{};
    check(getrlimit(RLIMIT_NOFILE, &limit), "getrlimit RLIMIT_NOFILE");
    limit.rlim_cur = limit.rlim_max;
    check(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit RLIMIT_NOFILE");
    return limit.rlim_cur;
}

void set_nonblocking(int fd) {
    const int flags = check(fcntl(fd, F_GETFL), "fcntl F_GETFL");
    check(fcntl(fd, F_SETFL, flags | O_NONBLOCK), "fcntl O_NONBLOCK");
}

void demand_trace(const std::string& path) {
    struct stat status{};
    int error = 0;
    if (path != "-" && stat(path.c_str(), &status) != 0) {
        error = errno;
    } else if (S_ISDIR(status.st_mode)) {
        error = EISDIR;
    }
    if (error != 0) {
        throw UsageError(fmt::format("cannot open trace {}: {}; check the path and its permissions",
                                     path, std::generic_category().message(error)));
    }
}

} // namespace reprise
