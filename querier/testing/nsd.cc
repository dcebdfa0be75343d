#include "querier/testing/nsd.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/testing/messages.hh"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <stdlib.h> // NOLINT(modernize-deprecated-headers): the flags of waitpid
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace reprise::querier::testing {
namespace {

constexpr auto* kProgram = "/usr/sbin/nsd";

FileDescriptor connected(const char* server, int type) {
    sockaddr_storage address{};
    const socklen_t size = Endpoint::parse(server).value_or(Endpoint{}).to_sockaddr(address);
    FileDescriptor fd(::socket(address.ss_family, type | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        fd.reset();
    }
    return fd;
}

bool answers_udp(const char* server) {
    const FileDescriptor fd = connected(server, SOCK_DGRAM);
    const auto query = make_message(1, "a.example.");
    std::array<std::uint8_t, 512> buffer{};
    if (!fd.valid() || ::send(fd.get(), query.data(), query.size(), MSG_NOSIGNAL) < 0) {
        return false;
    }
    pollfd waiting{.fd = fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waiting, 1, 100) > 0 && ::recv(fd.get(), buffer.data(), buffer.size(), 0) > 12;
}

bool can_bind(const char* server) {
    sockaddr_storage address{};
    const socklen_t size = Endpoint::parse(server).value_or(Endpoint{}).to_sockaddr(address);
    const FileDescriptor fd(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

/// Workers of a server that was killed keep the port until they have ended too.
void wait_for_the_port() {
    const Nanoseconds limit = SteadyClock::now() + 20 * kSecond;
    while (!can_bind("127.0.0.1:5300") || !can_bind("[::1]:5300")) {
        if (SteadyClock::now() > limit) {
            throw Error("port 5300 stays in use");
        }
        usleep(5000);
    }
}

bool ready() {
    return answers_udp("127.0.0.1:5300") && answers_udp("[::1]:5300") &&
           connected("127.0.0.1:5300", SOCK_STREAM).valid() &&
           connected("[::1]:5300", SOCK_STREAM).valid();
}

} // namespace

bool Nsd::installed() { return access(kProgram, X_OK) == 0; }

Nsd::Nsd(const Settings& settings) {
    configure(settings);
    wait_for_the_port();
    const std::string config = folder_.path() + "/nsd.conf";
    pid_ = check(fork(), "fork");
    if (pid_ == 0) {
        setpgid(0, 0);
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        execl(kProgram, "nsd", "-d", "-c", config.c_str(), nullptr);
        _exit(127);
    }
    wait_until_ready();
}

void Nsd::configure(const Settings& settings) {
    const std::string& at = folder_.path();
    std::ofstream zone(at + "/example.zone");
    zone << "$ORIGIN example.\n$TTL 3600\n@ SOA ns. host. 1 2 3 4 5\n@ NS ns.example.\n"
            "ns A 127.0.0.1\n";
    for (char name = 'a'; name <= 'z'; ++name) {
        zone << name << " A 192.0.2." << static_cast<int>(name) << "\n";
    }
    std::ofstream(at + "/nsd.conf") << fmt::format(
        "server:\n  ip-address: 127.0.0.1\n  ip-address: ::1\n  port: 5300\n  server-count: 1\n"
        "  username: \"\"\n  zonesdir: \"{0}\"\n  database: \"\"\n  pidfile: \"{0}/pid\"\n"
        "  xfrdfile: \"{0}/xfrd\"\n  zonelistfile: \"{0}/list\"\n  xfrdir: \"{0}\"\n"
        "  logfile: \"{0}/log\"\n  tcp-count: 2000\n  tcp-timeout: {1}\n  tcp-query-count: {2}\n"
        "  rrl-ratelimit: 0\n  receive-buffer-size: 8388608\n" // a preempted server loses nothing
        "remote-control:\n  control-enable: no\n"
        "zone:\n  name: example.\n  zonefile: example.zone\n",
        at, settings.tcp_timeout, settings.tcp_query_count);
}

void Nsd::wait_until_ready() {
    const Nanoseconds limit = SteadyClock::now() + 20 * kSecond;
    while (!ready()) {
        if (SteadyClock::now() > limit || waitpid(pid_, nullptr, WNOHANG) != 0) {
            std::ifstream log(folder_.path() + "/log");
            throw Error("nsd does not answer: " +
                        std::string(std::istreambuf_iterator<char>(log), {}));
        }
        usleep(5000);
    }
}

Nsd::~Nsd() { kill(); }

void Nsd::kill() {
    if (pid_ > 0) {
        ::kill(-pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

void Nsd::stop() const { ::kill(-pid_, SIGSTOP); }

void Nsd::go_on() const { ::kill(-pid_, SIGCONT); }

} // namespace reprise::querier::testing
