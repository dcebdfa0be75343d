#include "querier/packet/testing/bed.hh"

#include "core/address.hh"
#include "core/error.hh"
#include "core/fd.hh"
#include "querier/transport.hh"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kLookEveryMs = 5;
/// Before there is a link: looking for duplicates of its addresses would take seconds.
constexpr auto* kNoDetection =
    "sysctl -qw net/ipv6/conf/default/accept_dad=0 net/ipv6/conf/default/dad_transmits=0";

FileDescriptor listen_on(const Endpoint& endpoint) {
    sockaddr_storage address{};
    const socklen_t size = endpoint.to_sockaddr(address);
    FileDescriptor fd(check(::socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
    const int room = 8 << 20;
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind the server");
    return fd;
}

} // namespace

void run(const std::string& command) {
    if (std::system(command.c_str()) != 0) {
        throw Error("failed: " + command);
    }
}

Servers PacketBed::servers() {
    return {.v4 = Endpoint::parse("198.19.255.53:53"),
            .v6 = Endpoint::parse("[fd00:198:19:ff::53]:5300")};
}

Endpoint PacketBed::server_of(std::uint8_t family) {
    return servers().of(family).value_or(Endpoint{});
}

PacketBed::PacketBed(Answer answer) : answer_(std::move(answer)), thread_([this] { serve(); }) {
    try {
        run(kNoDetection);
        run(fmt::format("ip link add {} type veth peer name server netns {}", kWire,
                        entered_.get_future().get()));
        run(fmt::format(
            "ip addr add 198.19.1.1/24 dev {0}; ip addr add fd00:198:19:1::1/64 dev {0} "
            "nodad; ip link set {0} up",
            kWire));
        wired_.set_value();
        ready_.get_future().get();
        run("ip route add 198.19.255.53 via 198.19.1.2; "
            "ip route add fd00:198:19:ff::53 via fd00:198:19:1::2");
    } catch (...) {
        done_ = true;
        thread_.join();
        throw;
    }
}

PacketBed::~PacketBed() {
    done_ = true;
    thread_.join();
    std::system((std::string("ip link del ") + kWire + " 2>/dev/null").c_str());
}

void PacketBed::set_up_server() {
    run("ip link set lo up; ip addr add 198.19.255.53/32 dev lo; "
        "ip addr add fd00:198:19:ff::53/128 dev lo nodad; ip addr add 198.19.1.2/24 dev server; "
        "ip addr add fd00:198:19:1::2/64 dev server nodad; ip link set server up; "
        "ip route add 10.0.0.0/8 via 198.19.1.1; ip route add 2001:db8::/32 via fd00:198:19:1::1");
}

void PacketBed::serve() {
    try {
        check(unshare(CLONE_NEWNET), "a network namespace for the server");
        run(kNoDetection);
        entered_.set_value(gettid());
        auto wired = wired_.get_future();
        while (wired.wait_for(std::chrono::milliseconds(kLookEveryMs)) !=
               std::future_status::ready) {
            if (done_) {
                return;
            }
        }
        set_up_server();
        const FileDescriptor v4 = listen_on(server_of(4));
        const FileDescriptor v6 = listen_on(server_of(6));
        ready_.set_value();
        while (!done_) {
            std::array<pollfd, 2> waiting{pollfd{.fd = v4.get(), .events = POLLIN, .revents = 0},
                                          pollfd{.fd = v6.get(), .events = POLLIN, .revents = 0}};
            ::poll(waiting.data(), waiting.size(), kLookEveryMs);
            for (const pollfd& one : waiting) {
                if (one.revents != 0) {
                    answer_one(one.fd);
                }
            }
            run_pending();
        }
    } catch (const std::exception&) {
        ready_.set_exception(std::current_exception());
    }
}

void PacketBed::answer_one(int socket) {
    std::array<std::uint8_t, 2048> buffer{};
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    const auto got = ::recvfrom(socket, buffer.data(), buffer.size(), MSG_DONTWAIT,
                                reinterpret_cast<sockaddr*>(&peer), &size);
    if (got < 0) {
        return;
    }
    {
        const std::scoped_lock lock(mutex_);
        seen_.push_back(Endpoint::from_sockaddr(peer));
    }
    const auto reply = answer_({buffer.data(), static_cast<size_t>(got)});
    ::sendto(socket, reply.data(), reply.size(), 0, reinterpret_cast<const sockaddr*>(&peer), size);
    ++count_;
}

void PacketBed::on_server(const std::string& command) {
    std::packaged_task<void()> task([command] { run(command); });
    auto done = task.get_future();
    {
        const std::scoped_lock lock(mutex_);
        pending_.push_back(std::move(task));
    }
    done.get();
}

void PacketBed::run_pending() {
    std::vector<std::packaged_task<void()>> tasks;
    {
        const std::scoped_lock lock(mutex_);
        tasks.swap(pending_);
    }
    for (auto& task : tasks) {
        task();
    }
}

std::vector<Endpoint> PacketBed::seen() {
    const std::scoped_lock lock(mutex_);
    return seen_;
}

} // namespace reprise::querier::testing
