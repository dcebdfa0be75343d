#include "querier/carrier/socket.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <linux/errqueue.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace reprise::querier {

bool set_option(int fd, int level, int name, int value) {
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool no_buffer(int error) { return error == EAGAIN || error == ENOBUFS || error == ENOMEM; }

SendResult refusal(int error) {
    if (error == EMSGSIZE) {
        return SendResult::kOversize;
    }
    return no_buffer(error) ? SendResult::kBusy : SendResult::kFailed;
}

Ancillary read_ancillary(const msghdr& message) {
    Ancillary out;
    auto& header = const_cast<msghdr&>(message); // CMSG_NXTHDR only reads
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        const unsigned char* const data = CMSG_DATA(part);
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS) {
            timespec time{};
            std::memcpy(&time, data, sizeof time);
            out.stamp = time.tv_sec * kSecond + time.tv_nsec;
        } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_PKTINFO) {
            out.local = IpAddress::v4(data + offsetof(in_pktinfo, ipi_addr));
        } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_PKTINFO) {
            out.local = IpAddress::v6(data + offsetof(in6_pktinfo, ipi6_addr));
        } else if ((part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_RECVERR) ||
                   (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_RECVERR)) {
            sock_extended_err error{};
            std::memcpy(&error, data, sizeof error);
            out.icmp =
                error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
        }
    }
    return out;
}

ssize_t receive(int fd, std::span<std::uint8_t> buffer, int flags, Ancillary& with) {
    iovec vector{.iov_base = buffer.data(), .iov_len = buffer.size()};
    alignas(cmsghdr) std::array<char, 256> control; // the kernel fills what is looked at
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, flags);
    if (got >= 0) {
        with = read_ancillary(message);
    }
    return got;
}

Poller::Poller()
    : epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      timer_(check(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")) {
    add(timer_.get(), EPOLLIN, {});
}

void Poller::add(int fd, std::uint32_t events, EventTag tag) {
    epoll_event event{.events = events, .data = {.u64 = tag.pack()}};
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl ADD");
}

void Poller::change(int fd, std::uint32_t events, EventTag tag) {
    epoll_event event{.events = events, .data = {.u64 = tag.pack()}};
    check(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event), "epoll_ctl MOD");
}

void Poller::arm(Nanoseconds wake) {
    if (wake == armed_) {
        return;
    }
    const itimerspec time{.it_interval = {},
                          .it_value = {.tv_sec = wake / kSecond, .tv_nsec = wake % kSecond}};
    check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr), "timerfd_settime");
    armed_ = wake;
}

std::span<const epoll_event> Poller::wait(Nanoseconds now, Nanoseconds wake) {
    const bool look = wake <= now;
    if (!look) {
        arm(wake);
    }
    const int found =
        epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), look ? 0 : -1);
    if (found < 0 && errno != EINTR) {
        throw SystemError("epoll_wait");
    }
    const auto count = static_cast<size_t>(std::max(found, 0));
    const auto timer =
        std::find_if(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(count),
                     [](const epoll_event& e) { return e.data.u64 == 0; });
    timer_fired_ = timer != events_.begin() + static_cast<ptrdiff_t>(count);
    if (!timer_fired_) {
        return {events_.data(), count};
    }
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);
    armed_ = 0;
    std::swap(*timer, events_[count - 1]);
    return {events_.data(), count - 1};
}

namespace {

int bind_source(int fd, const IpAddress& source) {
    const bool v6 = source.is_v6();
    set_option(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_TRANSPARENT : IP_TRANSPARENT, 1);
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    sockaddr_storage address{};
    const socklen_t size = Endpoint{.address = source, .port = 0}.to_sockaddr(address);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 ? 0 : errno;
}

class KernelTcp final : public TcpSocket {
public:
    KernelTcp(Poller& poller, FileDescriptor fd) : poller_(poller), fd_(std::move(fd)) {}

    void watch(EventTag tag) override {
        constexpr std::uint32_t kEvents = EPOLLIN | EPOLLRDHUP | EPOLLOUT | EPOLLET;
        if (std::exchange(watched_, true)) {
            poller_.change(fd_.get(), kEvents, tag);
        } else {
            poller_.add(fd_.get(), kEvents, tag);
        }
    }

    ssize_t send(Bytes bytes, More more) override {
        return ::send(fd_.get(), bytes.data(), bytes.size(),
                      MSG_NOSIGNAL | (more == More::kYes ? MSG_MORE : 0));
    }

    SocketRead read(std::span<std::uint8_t> buffer) override {
        Ancillary with;
        const ssize_t got = receive(fd_.get(), buffer, 0, with);
        if (got < 0) {
            return {.bytes = {}, .stamp = 0, .error = errno};
        }
        return {.bytes = buffer.first(static_cast<size_t>(got)), .stamp = with.stamp, .error = 0};
    }

    int take_error() override {
        int error = 0;
        socklen_t size = sizeof error;
        return getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
    }

    [[nodiscard]] bool unacknowledged(Nanoseconds for_time) const override {
        tcp_info info{};
        socklen_t size = sizeof info;
        return getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
               info.tcpi_unacked > 0 && info.tcpi_retransmits > 0 &&
               info.tcpi_last_ack_recv * kMillisecond >= for_time;
    }

    void acknowledge_now() override { set_option(fd_.get(), IPPROTO_TCP, TCP_QUICKACK, 1); }

    void disable_nagle() override { set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1); }

private:
    Poller& poller_;
    FileDescriptor fd_;
    bool watched_ = false;
};

} // namespace

OpenedDescriptor open_socket(int type, const Clock& clock, const Endpoint& server,
                             const std::optional<IpAddress>& source) {
    OpenedDescriptor out;
    sockaddr_storage address{};
    const socklen_t size = server.to_sockaddr(address);
    out.fd = FileDescriptor(::socket(address.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    out.error = !out.fd.valid() ? errno : source ? bind_source(out.fd.get(), *source) : 0;
    if (out.error != 0) {
        return out;
    }
    out.call.before = clock.now();
    // Without a bind the kernel chooses the port with the peer in mind, as IP_BIND_ADDRESS_NO_PORT
    // makes a bind do.
    if (::connect(out.fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
        errno != EINPROGRESS) {
        out.error = errno == EADDRNOTAVAIL ? EADDRINUSE : errno; // no port is free
    }
    out.call.after = clock.now();
    return out;
}

OpenedSocket open_tcp(Poller& poller, const Clock& clock, const Endpoint& server,
                      const std::optional<IpAddress>& source, bool kernel_stamps) {
    OpenedDescriptor opened = open_socket(SOCK_STREAM, clock, server, source);
    if (kernel_stamps && opened.error == 0) {
        set_option(opened.fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, 1);
    }
    return {.socket = std::make_unique<KernelTcp>(poller, std::move(opened.fd)),
            .call = opened.call,
            .error = opened.error};
}

} // namespace reprise::querier
