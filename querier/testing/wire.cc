#include "querier/testing/wire.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/testing/netns.hh"

#include <arpa/inet.h>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr const char* kNear = "wire0";
constexpr const char* kFar = "wire1";
constexpr size_t kIp = 14;
constexpr size_t kDns = kIp + 20 + 8;

FileDescriptor reader_of(const char* device) {
    FileDescriptor fd(
        check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP)), "AF_PACKET socket"));
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_IP);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device));
    check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "bind");
    const int buffer = 16 << 20;
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    return fd;
}

} // namespace

Wire::Wire(std::string neighbor) : neighbor_(std::move(neighbor)) {
    reprise::testing::ip(std::string("link add ") + kNear + " type veth peer name " + kFar +
                         " address 02:00:00:00:00:02");
    reprise::testing::ip(std::string("link set ") + kNear + " up");
    reprise::testing::ip(std::string("link set ") + kFar + " up");
    reprise::testing::ip(std::string("addr add 192.0.2.1/24 dev ") + kNear);
    std::ofstream(std::string("/proc/sys/net/ipv4/neigh/") + kNear + "/unres_qlen_bytes")
        << (64 << 20);
    reader_ = reader_of(kFar);
}

Wire::~Wire() {
    try {
        reprise::testing::ip(std::string("link del ") + kNear);
    } catch (const std::exception& error) { // the namespace goes away soon anyhow
        std::fputs(error.what(), stderr);
    }
}

void Wire::make_known() const {
    reprise::testing::ip("neigh replace " + neighbor_ + " lladdr 02:00:00:00:00:02 dev " + kNear +
                         " nud permanent");
}

std::vector<std::pair<std::uint32_t, std::uint16_t>> Wire::seen(size_t count) const {
    std::vector<std::pair<std::uint32_t, std::uint16_t>> all;
    const Nanoseconds limit = SteadyClock::now() + 5 * kSecond;
    while (all.size() < count && SteadyClock::now() < limit) {
        pollfd look{.fd = reader_.get(), .events = POLLIN, .revents = 0};
        std::array<std::uint8_t, 2048> frame{};
        if (::poll(&look, 1, 100) <= 0) {
            continue;
        }
        const ssize_t got = ::recv(reader_.get(), frame.data(), frame.size(), 0);
        if (got >= static_cast<ssize_t>(kDns + 2) && frame[kIp + 9] == IPPROTO_UDP) {
            all.emplace_back(frame[kIp + 15],
                             static_cast<std::uint16_t>(frame[kDns] << 8U | frame[kDns + 1]));
        }
    }
    return all;
}

} // namespace reprise::querier::testing
