#include "core/base/fd.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/netlink.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <optional>
#include <pwd.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

namespace reprise {

SystemError::SystemError(const std::string& attempt, int error_number)
    : std::system_error(error_number, std::generic_category(), attempt) {}

void throw_system_error(const char* attempt) { throw SystemError(attempt); }

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
    const bool missing = path != "-" && stat(path.c_str(), &status) != 0;
    const int error = missing ? errno : S_ISDIR(status.st_mode) ? EISDIR : 0;
    demand(error == 0, fmt::format("cannot open trace {}: {}; check the path and its permissions",
                                   path, std::generic_category().message(error)));
}

namespace {

/// The user whose socket has the name, by sock_diag(7); none where the kernel does not say.
std::optional<uid_t> holder(const std::string& name) {
    std::optional<uid_t> found;
    unix_diag_req every{};
    every.sdiag_family = AF_UNIX;
    every.udiag_states = ~0U;
    every.udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
    NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, every);
    Netlink({}, NETLINK_SOCK_DIAG).each(request, [&](const NetlinkMessage& socket) {
        const Bytes known = socket.attribute(sizeof(unix_diag_msg), UNIX_DIAG_NAME);
        const Bytes user = socket.attribute(sizeof(unix_diag_msg), UNIX_DIAG_UID);
        if (!user.empty() && std::string(known.begin(), known.end()) == '\0' + name) {
            found = Cursor(user).little<std::uint32_t>();
        }
    });
    return found;
}

bool is_one_of_ours(uid_t user) {
    const passwd* nobody = getpwnam("nobody");
    return user == 0 || user == geteuid() || (nobody != nullptr && user == nobody->pw_uid);
}

} // namespace

FileDescriptor take_name(const std::string& name) {
    FileDescriptor fd(check(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "open a Unix socket"));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string taken = name.substr(0, sizeof address.sun_path - 1);
    std::ranges::copy(taken, address.sun_path + 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + taken.size());
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
        return fd;
    }
    if (errno != EADDRINUSE) {
        throw SystemError("bind the lock " + name);
    }
    const std::optional<uid_t> user = holder(taken);
    if (!user || is_one_of_ours(*user)) {
        fd.reset();
    } else {
        spdlog::warn("event=name_taken name={} by_user={}", name, *user);
    }
    return fd;
}

} // namespace reprise
