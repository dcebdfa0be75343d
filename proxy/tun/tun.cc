#include "proxy/tun/tun.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/log.hh"
#include "core/base/netlink.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace reprise::proxy {

namespace {

ifreq request(const std::string& name) {
    ifreq ask{};
    name.copy(ask.ifr_name, IFNAMSIZ - 1);
    return ask;
}

[[noreturn]] void refuse_attach(const std::string& name, int error_number) {
    if (error_number == EBUSY) {
        throw Error(
            fmt::format("TUN device {}: another process reads it; stop that one first", name));
    }
    if (error_number == EPERM) {
        throw Error(fmt::format("TUN device {}: may not be opened; run as root, or make it with "
                                "`ip tuntap add dev {} mode tun user USER`",
                                name, name));
    }
    if (error_number == EINVAL) {
        throw Error(fmt::format("TUN device {}: is not a TUN device with one queue; make it with "
                                "`ip tuntap add dev {} mode tun`",
                                name, name));
    }
    throw SystemError(fmt::format("attach to TUN device {}", name), error_number);
}

FileDescriptor attach(const std::string& name) {
    FileDescriptor fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd.valid()) {
        throw SystemError("open /dev/net/tun");
    }
    ifreq ask = request(name);
    ask.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(fd.get(), TUNSETIFF, &ask) != 0) {
        refuse_attach(name, errno);
    }
    check(ioctl(fd.get(), TUNSETOFFLOAD, 0UL), "ioctl TUNSETOFFLOAD");
    return fd;
}

/// A device that set-up has brought up already needs no rights here.
void bring_up(int control, const std::string& name) {
    ifreq ask = request(name);
    check(ioctl(control, SIOCGIFFLAGS, &ask), "ioctl SIOCGIFFLAGS");
    if ((ask.ifr_flags & IFF_UP) != 0) {
        return;
    }
    ask.ifr_flags = static_cast<short>(ask.ifr_flags | IFF_UP);
    if (ioctl(control, SIOCSIFFLAGS, &ask) != 0) {
        throw Error(
            fmt::format("TUN device {} is down; bring it up with `ip link set {} up`", name, name));
    }
}

std::string checked(const std::string& name) {
    if (name.empty() || name.size() >= IFNAMSIZ || name.find('%') != std::string::npos) {
        throw UsageError(fmt::format("--tun {}: not a device's name; give 1 to 15 letters", name));
    }
    return name;
}

} // namespace

Tun::Tun(const std::string& name)
    : name_(checked(name)), fd_(attach(name)),
      control_(check(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket")) {
    // Room for the packets of a burst while this process does not run, if it may be set.
    ifreq ask = request(name_);
    ask.ifr_qlen = 10'000;
    static_cast<void>(ioctl(control_.get(), SIOCSIFTXQLEN, &ask));
    bring_up(control_.get(), name_);
}

std::span<std::uint8_t> Tun::read(std::span<std::uint8_t> buffer) const {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got >= 0) {
        return buffer.first(static_cast<size_t>(got));
    }
    if (errno == EAGAIN || errno == EINTR) {
        return {};
    }
    if (errno == EBADFD || errno == EIO) {
        throw Error(fmt::format("TUN device {} has vanished; set the network up again and start "
                                "the proxy anew",
                                name_));
    }
    throw SystemError(fmt::format("read from TUN device {}", name_));
}

void Tun::wait_until_running() const {
    const Nanoseconds end = SteadyClock::now() + 2 * kSecond;
    ifreq ask = request(name_);
    while (true) {
        check(ioctl(control_.get(), SIOCGIFFLAGS, &ask), "ioctl SIOCGIFFLAGS");
        if ((ask.ifr_flags & IFF_RUNNING) != 0) {
            return;
        }
        if (SteadyClock::now() >= end) {
            throw Error(fmt::format("TUN device {} is not running (no carrier); remove it "
                                    "with `ip link delete {}`, it is made anew",
                                    name_, name_));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

bool Tun::waits() const {
    pollfd one{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&one, 1, 0) > 0;
}

bool Tun::write(Bytes packet) const {
    return ::write(fd_.get(), packet.data(), packet.size()) >= 0;
}

int Tun::mtu() const {
    ifreq ask = request(name_);
    check(ioctl(control_.get(), SIOCGIFMTU, &ask), "ioctl SIOCGIFMTU");
    return ask.ifr_mtu;
}

void Tun::set_mtu(int mtu) const {
    ifreq ask = request(name_);
    ask.ifr_mtu = mtu;
    check(ioctl(control_.get(), SIOCSIFMTU, &ask), "ioctl SIOCSIFMTU");
}

unsigned Tun::index() const { return if_nametoindex(name_.c_str()); }

std::optional<std::uint64_t> Tun::dropped() const {
    Netlink netlink;
    int error = 0;
    const auto link = netlink.ask_link(index(), error);
    Cursor counts(link ? link->attribute(sizeof(ifinfomsg), IFLA_STATS64) : Bytes{});
    counts.skip(offsetof(rtnl_link_stats64, tx_dropped));
    const auto dropped = counts.little<std::uint64_t>();
    return counts.ok() ? std::optional(dropped) : std::nullopt;
}

namespace {

/// "Discard". Not 53: the rules that bring DNS to the device must not catch this look-up.
constexpr std::uint16_t kPort = 9;

/// MTU of the route to an address, by the kernel's routing table; none without a route. Nothing is
/// sent.
std::optional<int> route_mtu(const IpAddress& address) {
    const bool v4 = address.is_v4();
    const FileDescriptor socket(::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) { // a kernel without this family
        return std::nullopt;
    }
    sockaddr_storage storage{};
    const socklen_t length = Endpoint{.address = address, .port = kPort}.to_sockaddr(storage);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0) {
        return std::nullopt;
    }
    int mtu = 0;
    socklen_t size = sizeof mtu;
    const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    if (getsockopt(socket.get(), level, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) != 0) {
        return std::nullopt;
    }
    return mtu;
}

constexpr int kLeastV4 = 68;    // RFC 791
constexpr int kLeastV6 = 1'280; // RFC 8200
constexpr int kMost = 65'535;

} // namespace

int device_mtu(int route, bool v6) { return std::clamp(route, v6 ? kLeastV6 : kLeastV4, kMost); }

void MtuKeeper::fit() {
    const int before = tun_.mtu();
    const int mtu = wide_enough(narrowest().value_or(before));
    if (mtu != before && mtu != refused_) {
        set(mtu, before);
    } else if (!std::exchange(told_, true)) {
        spdlog::info("event=mtu device={} mtu={} before={}", tun_.name(), mtu, before);
    }
}

std::optional<int> MtuKeeper::narrowest() {
    std::optional<int> narrowest;
    for (const IpAddress& address : neighbors_) {
        if (const std::optional<int> found = route_mtu(address)) {
            without_route_.erase(address);
            narrowest = std::min(*found, narrowest.value_or(*found));
        } else if (without_route_.insert(address).second) {
            spdlog::warn("event=no_route to={} hint=\"add a route to it; packets that go there are "
                         "lost\"",
                         address.text());
        }
    }
    return narrowest;
}

int MtuKeeper::wide_enough(int mtu) {
    const int wide = device_mtu(mtu, std::ranges::any_of(neighbors_, &IpAddress::is_v6));
    if (wide > mtu && std::exchange(narrow_, mtu) != mtu) {
        spdlog::warn("event=narrow_link mtu={} hint=\"give the link at least {} bytes; longer "
                     "packets are lost\"",
                     mtu, wide);
    }
    return wide;
}

/// Beside an unprivileged process set-up has to do it, so a refusal is no reason to end.
void MtuKeeper::set(int mtu, int before) {
    told_ = true;
    try {
        tun_.set_mtu(mtu);
        refused_ = 0;
        spdlog::info("event=mtu device={} mtu={} before={}", tun_.name(), mtu, before);
    } catch (const SystemError& error) {
        refused_ = mtu;
        spdlog::warn("event=mtu_refused device={} mtu={} because={} hint=\"ip link set {} mtu {}\"",
                     tun_.name(), mtu, log_value(error.what()), tun_.name(), mtu);
    }
}

} // namespace reprise::proxy
