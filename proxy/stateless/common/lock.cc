#include "proxy/stateless/common/lock.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

namespace reprise::proxy {

FileDescriptor take_name(const std::string& name) {
    FileDescriptor fd(check(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "open a Unix socket"));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const size_t length = std::min(name.size(), sizeof address.sun_path - 1);
    std::copy_n(name.begin(), length, address.sun_path + 1);
    const auto size = static_cast<unsigned>(offsetof(sockaddr_un, sun_path) + 1 + length);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        if (errno != EADDRINUSE) {
            throw SystemError("bind the lock " + name);
        }
        fd.reset();
    }
    return fd;
}

FileDescriptor lock_interface(const std::string& interface) {
    FileDescriptor fd = take_name("reprise-stateless-" + interface);
    if (!fd.valid()) {
        throw Error(
            fmt::format("--interface {}: another front serves it; stop that one first", interface));
    }
    return fd;
}

} // namespace reprise::proxy
