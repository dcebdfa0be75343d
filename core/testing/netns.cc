#include "core/testing/netns.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace reprise::testing {
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

void ip(const std::string& words) {
    std::vector<std::string> arguments{"ip"};
    std::istringstream in(words);
    arguments.insert(arguments.end(), std::istream_iterator<std::string>(in), {});
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& word : arguments) {
        argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    pid_t pid = 0;
    int status = 0;
    if (posix_spawnp(&pid, "ip", nullptr, nullptr, argv.data(), environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        throw Error("ip " + words + " failed");
    }
}

long snmp_counter(const std::string& table, const std::string& name) {
    std::ifstream in("/proc/self/net/snmp");
    std::string names;
    while (std::getline(in, names) && !names.starts_with(table + ": ")) {
    }
    std::string values;
    std::getline(in, values);
    std::istringstream name_in(names);
    std::istringstream value_in(values);
    std::string one_name;
    std::string value;
    while (name_in >> one_name && value_in >> value) {
        if (one_name == name) {
            return std::stol(value);
        }
    }
    throw Error("no counter " + name);
}

} // namespace reprise::testing
