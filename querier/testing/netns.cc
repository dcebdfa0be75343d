#include "querier/testing/netns.hh"

#include "core/fd.hh"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <net/if.h>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace reprise::querier::testing {
namespace {

void write_file(const char* path, const std::string& text) { std::ofstream(path) << text; }

bool enter() {
    if (unshare(CLONE_NEWNET) == 0) {
        return true;
    }
    const auto user = getuid();
    const auto group = getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", "0 " + std::to_string(user) + " 1");
    write_file("/proc/self/gid_map", "0 " + std::to_string(group) + " 1");
    return true;
}

bool raise_loopback() {
    const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(any.get(), SIOCSIFFLAGS, &request) == 0;
}

} // namespace

std::string enter_network_namespace() {
    static bool entered = false;
    if (entered) {
        return "";
    }
    if (!enter()) {
        return std::string("no network namespace: ") + std::strerror(errno);
    }
    if (!raise_loopback()) {
        return std::string("loopback stays down: ") + std::strerror(errno);
    }
    entered = true;
    return "";
}

} // namespace reprise::querier::testing
