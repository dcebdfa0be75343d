#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"
#include "core/wire/frame.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/carrier/socket.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/process.hh"
#include "querier/udp/udp_carriers.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <sched.h>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <time.h> // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

class KernelTcp final : public TcpSocket {
public:
    KernelTcp(Network& network, FileDescriptor fd) : network_(network), fd_(std::move(fd)) {}

    void watch(EventTag tag) override {
        network_.watch(fd_.get(), EPOLLIN | EPOLLRDHUP | EPOLLOUT | EPOLLET, tag);
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
    Network& network_;
    FileDescriptor fd_;
};

} // namespace

KernelNetwork::KernelNetwork()
    : epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      timer_(check(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create")) {
    watch(timer_.get(), EPOLLIN, {});
}

std::unique_ptr<Carrier> KernelNetwork::udp_carrier(const CarrierWish& wish,
                                                    const CarrierParts& parts) {
    switch (wish.options.sources) {
    case SourceMode::kPorts:
        return ports_carrier(wish, parts);
    case SourceMode::kPacket:
        return packet_carrier(wish, parts);
    default:
        return addresses_carrier(wish, parts);
    }
}

OpenedSocket KernelNetwork::connect(const Endpoint& server, const IpAddress& source,
                                    bool kernel_stamps) {
    OpenedDescriptor opened = open_socket(SOCK_STREAM, clock(), server, source);
    if (kernel_stamps && opened.error == 0) {
        set_option(opened.fd.get(), SOL_SOCKET, SO_TIMESTAMPNS, 1);
    }
    return {.socket = std::make_unique<KernelTcp>(*this, std::move(opened.fd)),
            .call = opened.call,
            .error = opened.error};
}

void KernelNetwork::watch(int fd, std::uint32_t events, EventTag tag) {
    epoll_event event{.events = events, .data = {.u64 = tag.pack()}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0 &&
        (errno != EEXIST || epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)) {
        throw SystemError("epoll_ctl");
    }
}

std::span<const epoll_event> KernelNetwork::wait(Nanoseconds now, Nanoseconds wake) {
    const bool look = wake <= now;
    if (!look && wake != armed_) {
        const itimerspec time{.it_interval = {},
                              .it_value = {.tv_sec = wake / kSecond, .tv_nsec = wake % kSecond}};
        check(timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &time, nullptr), "timerfd_settime");
        armed_ = wake;
    }
    const int count =
        epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), look ? 0 : -1);
    if (count < 0 && errno != EINTR) {
        throw SystemError("epoll_wait");
    }
    const auto found = std::span(events_).first(static_cast<size_t>(std::max(count, 0)));
    const auto timer =
        std::ranges::find_if(found, [](const epoll_event& e) { return e.data.u64 == 0; });
    timer_fired_ = timer != found.end();
    if (!timer_fired_) {
        return found;
    }
    std::uint64_t expirations = 0;
    [[maybe_unused]] const ssize_t got = read(timer_.get(), &expirations, sizeof expirations);
    armed_ = 0;
    std::swap(*timer, found.back());
    return found.first(found.size() - 1);
}

void KernelNetwork::sleep_until(Nanoseconds time) {
    const timespec when{.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr); // a signal may end it early
}

namespace {

/// One read: small enough (about 10 us) not to delay sending.
constexpr size_t kFrameRead = 32UL << 10U;

bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// The way to the parent over a socket pair.
class SocketLink final : public ControlLink {
public:
    explicit SocketLink(int fd) : fd_(fd), buffer_(kFrameRead) { set_nonblocking(fd); }

    void send(const wire::Frame& frame) override {
        if (!broken_) {
            out_ += encode_frame(frame);
            flush(0);
        }
    }

    void flush(int limit_ms) override {
        pollfd waiting{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
        while (!out_.empty()) {
            const ssize_t sent =
                ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent >= 0) {
                out_.erase(0, static_cast<size_t>(sent));
            } else if (!try_again(errno)) {
                broken_ = true; // what comes later would be read as the rest of a frame
                out_.clear();
            } else if (limit_ms == 0 || ::poll(&waiting, 1, limit_ms) <= 0) {
                return;
            }
        }
    }

    std::optional<Bytes> receive() override {
        const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && !try_again(errno))) {
            return std::nullopt;
        }
        return Bytes(buffer_).first(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    }

private:
    FileDescriptor fd_;
    std::string out_;
    bool broken_ = false;
    std::vector<std::uint8_t> buffer_;
};

/// The terminal's signals reach the whole tree; an orderly stop is the controller's job.
void set_signals() {
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    note_signals({SIGTERM}); // ends epoll_wait
}

void run_on(unsigned cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        throw SystemError(fmt::format("run on processor {} (--cpus)", cpu));
    }
}

/// Readies this process on its host.
void settle_in(QueryOptions& options) {
    try {
        set_signals();
        check(prctl(PR_SET_TIMERSLACK, 1), "prctl PR_SET_TIMERSLACK");
        if (options.cpu) {
            run_on(*options.cpu);
        }
        options.descriptors = raise_descriptor_limit();
    } catch (const std::exception& error) {
        options.failure = error.what();
    }
}

} // namespace

int run_query(QueryOptions options) {
    SocketLink link(options.control_fd);
    KernelNetwork network;
    network.watch(options.control_fd, EPOLLIN, {.kind = EventKind::kControl});
    settle_in(options);
    return run_querier(options, link, network);
}

} // namespace reprise::querier
