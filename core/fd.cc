#include "core/fd.hh"

#include "core/error.hh"

#include <cstddef>
#include <fcntl.h>
#include <sys/resource.h>
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

} // namespace reprise
