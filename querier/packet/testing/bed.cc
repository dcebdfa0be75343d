#include "querier/packet/testing/bed.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "querier/testing/servers.hh"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr int kWaitMs = 5;
/// Before there is a link: looking for duplicates of its addresses would take seconds.
constexpr auto* kNoDetection =
    "sysctl -qw net/ipv6/conf/default/accept_dad=0 net/ipv6/conf/default/dad_transmits=0";

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

void PacketBed::serve() {
    try {
        check(unshare(CLONE_NEWNET), "a network namespace for the server");
        run(kNoDetection);
        entered_.set_value(gettid());
        auto wired = wired_.get_future();
        while (wired.wait_for(std::chrono::milliseconds(kWaitMs)) != std::future_status::ready) {
            if (done_) {
                return;
            }
        }
        run("ip link set lo up; ip addr add 198.19.255.53/32 dev lo; "
            "ip addr add fd00:198:19:ff::53/128 dev lo nodad; ip addr add 198.19.1.2/24 dev "
            "server; "
            "ip addr add fd00:198:19:1::2/64 dev server nodad; ip link set server up; "
            "ip route add 10.0.0.0/8 via 198.19.1.1; "
            "ip route add 2001:db8::/32 via fd00:198:19:1::1");
        for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
            servers_.push_back(std::make_unique<UdpServer>(
                [this](Bytes query) { return std::vector<Message>{answer_(query)}; },
                server_of(family).text()));
        }
        ready_.set_value();
        while (!done_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(kWaitMs));
            run_pending();
        }
    } catch (const std::exception&) {
        ready_.set_exception(std::current_exception());
    }
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

std::vector<Endpoint> PacketBed::seen() const {
    std::vector<Endpoint> all;
    for (const auto& server : servers_) {
        for (const Seen& one : server->seen()) {
            all.push_back(one.peer);
        }
    }
    return all;
}

size_t PacketBed::count() const {
    size_t sum = 0;
    for (const auto& server : servers_) {
        sum += server->count();
    }
    return sum;
}

} // namespace reprise::querier::testing
