#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/signals.hh"
#include "core/wire/frame.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/process.hh"
#include "querier/udp/udp_carriers.hh"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h> // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX
#include <vector>

namespace reprise::querier {

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
        out_ += encode_frame(frame);
        flush();
    }

    bool flush() override {
        while (written_ < out_.size() && !broken_) {
            const ssize_t sent = ::send(fd_.get(), out_.data() + written_, out_.size() - written_,
                                        MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && try_again(errno)) {
                return false;
            }
            broken_ = sent < 0;
            written_ += sent < 0 ? 0 : static_cast<size_t>(sent);
        }
        out_.clear();
        written_ = 0;
        return true;
    }

    void flush_finally(int limit_ms) override {
        pollfd waiting{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
        while (!flush() && ::poll(&waiting, 1, limit_ms) > 0) {
        }
    }

    Received receive() override {
        const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
        if (got < 0) {
            return try_again(errno) ? Received::kNothing : Received::kGone;
        }
        reader_.feed({buffer_.data(), static_cast<size_t>(got)});
        return got > 0 ? Received::kData : Received::kGone;
    }

    FrameReader::Result next(wire::Frame& frame) override { return reader_.next(frame); }

private:
    FileDescriptor fd_;
    FrameReader reader_;
    std::string out_;
    size_t written_ = 0;
    std::vector<std::uint8_t> buffer_;
    bool broken_ = false;
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
