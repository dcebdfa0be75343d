#include "querier/control_link.hh"

#include "core/base/fd.hh"
#include "core/wire/frame.hh"
#include "core/wire/replay.pb.h"

#include <cerrno>
#include <cstddef>
#include <poll.h>
#include <sys/socket.h>

namespace reprise::querier {
namespace {

/// One read: small enough (about 10 us) not to delay sending.
constexpr size_t kFrameRead = 32UL << 10U;

bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

} // namespace

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
