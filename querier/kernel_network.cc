#include "querier/kernel_network.hh"

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/wire/frame.hh"
#include "core/wire/replay.pb.h"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/process.hh"
#include "querier/udp/udp_carriers.hh"

#include <cerrno>
#include <cstddef>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h> // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX

namespace reprise::querier {
namespace {

/// One read: small enough (about 10 us) not to delay sending.
constexpr size_t kFrameRead = 32UL << 10U;

bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

} // namespace

std::unique_ptr<Carrier> KernelNetwork::udp_carrier(const CarrierWish& wish,
                                                    const CarrierParts& parts) {
    switch (wish.options.source_mode) {
    case SourceMode::kPorts:
        return std::make_unique<PortsCarrier>(poller_, wish, parts);
    case SourceMode::kPacket:
        return std::make_unique<PacketCarrier>(wish, parts);
    default:
        return std::make_unique<AddressesCarrier>(poller_, wish, parts);
    }
}

void KernelNetwork::sleep_until(Nanoseconds time) {
    const timespec when{.tv_sec = time / kSecond, .tv_nsec = time % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr); // a signal may end it early
}

SocketLink::SocketLink(int fd) : fd_(fd), buffer_(kFrameRead) { set_nonblocking(fd_.get()); }

void SocketLink::send(const wire::Frame& frame) {
    out_ += encode_frame(frame);
    flush();
}

bool SocketLink::flush() {
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

void SocketLink::flush_finally(int limit_ms) {
    pollfd waiting{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    while (!flush() && ::poll(&waiting, 1, limit_ms) > 0) {
    }
}

ControlLink::Received SocketLink::receive() {
    const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got < 0) {
        return try_again(errno) ? Received::kNothing : Received::kGone;
    }
    reader_.feed({buffer_.data(), static_cast<size_t>(got)});
    return got > 0 ? Received::kData : Received::kGone;
}

} // namespace reprise::querier
