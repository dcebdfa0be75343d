#include "proxy/stateless/userspace/transfer.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/userspace/segment.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace reprise::proxy::stateless {

namespace {

constexpr Nanoseconds kFirstWait = 300 * kMillisecond;
constexpr Nanoseconds kMostWait = 5 * kSecond;
constexpr unsigned kRepeated = 3;          // acknowledgements that tell of a loss
constexpr size_t kFirstSegments = 10;      // RFC 6928
constexpr size_t kMostCongestion = 65'535; // no more than a window
constexpr size_t kRead = 16'384;

std::ptrdiff_t offset(size_t count) { return static_cast<std::ptrdiff_t>(count); }

/// Not valid where the connection cannot even begin.
FileDescriptor connect_to(const Endpoint& server) {
    sockaddr_storage storage{};
    const socklen_t length = server.to_sockaddr(storage);
    FileDescriptor fd(socket(storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.valid() && connect(fd.get(), reinterpret_cast<const sockaddr*>(&storage), length) != 0 &&
        errno != EINPROGRESS) {
        fd.reset();
    }
    return fd;
}

/// Of a call that may be tried again later.
bool try_later() { return errno == EAGAIN || errno == EINTR || errno == ENOTCONN; }

} // namespace

Transfer::Transfer(const Segment& first, std::uint16_t mss, Nanoseconds now)
    : connection_(first.connection), mss_(mss), first_(first.ack), next_(first.ack),
      most_(first.ack), expect_(first.seq), window_(first.window),
      congestion_(kFirstSegments * mss), wait_(kFirstWait), progress_(now) {}

bool Transfer::take(const Segment& segment, Nanoseconds now) {
    if (segment.has(kRst)) {
        return segment.seq == expect_; // one with another number may be anybody's
    }
    take_acknowledgement(segment, now);
    return take_data(segment, now);
}

void Transfer::take_acknowledgement(const Segment& segment, Nanoseconds now) {
    const std::uint32_t count = segment.ack - first_;
    if (count > most_ - first_) {
        return; // of bytes that were never sent, or an old one
    }
    const bool changed = segment.window != window_;
    window_ = segment.window;
    if (count == 0) {
        if (in_flight() != 0 && segment.data.empty() && !changed && ++repeated_ == kRepeated) {
            go_back();
        }
        return;
    }
    const size_t bytes = std::min<size_t>(count, to_client_.size());
    fin_acknowledged_ = count > bytes;
    to_client_.erase(to_client_.begin(), to_client_.begin() + offset(bytes));
    first_ += count;
    next_ = next_ - first_ > most_ - first_ ? first_ : next_;
    congestion_ = std::min(congestion_ + bytes, kMostCongestion);
    repeated_ = 0;
    wait_ = kFirstWait;
    timer_ = 0;
    progress_ = now;
}

bool Transfer::take_data(const Segment& segment, Nanoseconds now) {
    if (segment.end() == segment.seq) {
        return true; // nothing to acknowledge
    }
    acknowledge_ = true;
    if (client_ended_ || segment.seq != expect_ ||
        segment.data.size() > kMostToServer - to_server_.size()) {
        return false;
    }
    to_server_.insert(to_server_.end(), segment.data.begin(), segment.data.end());
    expect_ = segment.end();
    client_ended_ = segment.has(kFin);
    progress_ = now;
    return true;
}

void Transfer::append(Bytes bytes) {
    to_client_.insert(to_client_.end(), bytes.begin(), bytes.end());
}

void Transfer::sent_to_server(size_t count) {
    to_server_.erase(to_server_.begin(), to_server_.begin() + offset(count));
}

void Transfer::go_back() {
    next_ = first_;
    congestion_ = std::max<size_t>(congestion_ / 2, mss_);
    timer_ = 0;
}

size_t Transfer::send_data(size_t most, const Send& out) {
    size_t segments = 0;
    while (in_flight() < std::min(most, to_client_.size())) {
        const size_t left = std::min(most, to_client_.size()) - in_flight();
        Reply reply = control(next_, kAck | kPush);
        reply.data = Bytes(to_client_).subspan(in_flight(), std::min<size_t>(mss_, left));
        out(reply);
        next_ += static_cast<std::uint32_t>(reply.data.size());
        ++segments;
    }
    return segments;
}

size_t Transfer::send(Nanoseconds now, const Send& out) {
    const bool overdue = timer_ != 0 && now >= timer_;
    if (overdue) {
        go_back();
        congestion_ = mss_;
        wait_ = std::min(2 * wait_, kMostWait);
    }
    // A window of 0 opens by a segment that may be lost, so one byte asks for it again.
    const size_t most = std::max<size_t>(std::min<size_t>(window_, congestion_), overdue ? 1 : 0);
    const size_t segments = send_data(most, out);
    if (server_ended_ && !fin_acknowledged_ && in_flight() == to_client_.size()) {
        out(control(next_, kAck | kFin));
        ++next_;
    } else if (acknowledge_ && segments == 0) {
        out(control(next_, kAck));
    }
    acknowledge_ = false;
    most_ = next_ - first_ > most_ - first_ ? next_ : most_;
    timer_ = !outstanding() ? 0 : timer_ == 0 ? now + wait_ : timer_;
    return segments;
}

Nanoseconds Transfer::next_due() const {
    const Nanoseconds idle = progress_ + kIdle;
    return timer_ == 0 ? idle : std::min(timer_, idle);
}

bool Transfer::finished() const { return client_ended() && server_ended_ && fin_acknowledged_; }

Reply Transfer::reset() const { return control(most_, kRst | kAck); }

Reply Transfer::control(std::uint32_t seq, unsigned flags) const {
    return {.connection = connection_,
            .seq = seq,
            .ack = expect_,
            .flags = static_cast<std::uint8_t>(flags)};
}

Transfers::Transfers(int epoll, Transfer::Send send, StatelessCounts& counters)
    : epoll_(epoll), send_(std::move(send)), counters_(counters) {}

bool Transfers::open(const Segment& segment, std::uint16_t mss, Nanoseconds now) {
    if (relays_.size() >= kMost) {
        return false;
    }
    FileDescriptor socket = connect_to(segment.connection.server);
    if (!socket.valid()) {
        return false;
    }
    epoll_event event{.events = EPOLLOUT, .data = {.fd = socket.get()}};
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.get(), &event) != 0) {
        return false;
    }
    const auto relay =
        relays_
            .insert_or_assign(segment.connection, Relay{.transfer = Transfer(segment, mss, now),
                                                        .socket = std::move(socket),
                                                        .interest = EPOLLOUT})
            .first;
    relay->second.transfer.take(segment, now);
    drive(relay, now);
    return true;
}

bool Transfers::take(const Segment& segment, Nanoseconds now) {
    const auto relay = relays_.find(segment.connection);
    if (relay == relays_.end()) {
        return false;
    }
    if (segment.has(kSyn)) { // another connection from the same port
        relays_.erase(relay);
        return false;
    }
    counters_.fin += segment.has(kFin) ? 1U : 0U;
    counters_.rst += segment.has(kRst) ? 1U : 0U;
    const bool taken = relay->second.transfer.take(segment, now);
    counters_.waiting += taken ? 0U : 1U;
    if (segment.has(kRst) && taken) {
        relays_.erase(relay);
    } else {
        drive(relay, now);
    }
    return true;
}

void Transfers::ready(int fd, Nanoseconds now) {
    const auto relay = std::ranges::find_if(
        relays_, [fd](const auto& each) { return each.second.socket.get() == fd; });
    if (relay != relays_.end()) {
        drive(relay, now);
    }
}

void Transfers::tick(Nanoseconds now) {
    for (auto relay = relays_.begin(); relay != relays_.end();) {
        relay = relay->second.transfer.next_due() <= now ? drive(relay, now) : std::next(relay);
    }
}

std::optional<Nanoseconds> Transfers::next_due() const {
    std::optional<Nanoseconds> first;
    for (const auto& [connection, relay] : relays_) {
        const Nanoseconds due = relay.transfer.next_due();
        first = std::min(first.value_or(due), due);
    }
    return first;
}

/// Does what can be done for one; the next one, as this one may have ended.
Transfers::Relays::iterator Transfers::drive(Relays::iterator at, Nanoseconds now) {
    Relay& relay = at->second;
    const bool broken = !write(relay) || !read(relay);
    counters_.segments += relay.transfer.send(now, send_);
    if (broken || relay.transfer.failed(now)) {
        send_(relay.transfer.reset());
        ++counters_.reset;
        return relays_.erase(at);
    }
    if (relay.transfer.finished()) {
        return relays_.erase(at);
    }
    watch(relay);
    return std::next(at);
}

/// What the client said, and that it says nothing more. False where the server is gone.
bool Transfers::write(Relay& relay) {
    while (relay.socket.valid() && !relay.transfer.to_server().empty()) {
        const Bytes bytes = relay.transfer.to_server();
        const ssize_t sent = send(relay.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return try_later();
        }
        relay.transfer.sent_to_server(static_cast<size_t>(sent));
    }
    if (relay.socket.valid() && relay.transfer.client_ended() &&
        !std::exchange(relay.finished_sending, true)) {
        static_cast<void>(shutdown(relay.socket.get(), SHUT_WR));
    }
    return true;
}

/// As much of the server's bytes as there is room for. False where the server is gone.
bool Transfers::read(Relay& relay) {
    std::array<std::uint8_t, kRead> buffer{};
    while (relay.socket.valid() && relay.transfer.room() != 0) {
        const size_t most = std::min(buffer.size(), relay.transfer.room());
        const ssize_t got = recv(relay.socket.get(), buffer.data(), most, 0);
        if (got < 0) {
            return try_later();
        }
        if (got == 0) {
            relay.transfer.end();
            relay.socket.reset(); // also takes it from epoll
            relay.transfer.sent_to_server(relay.transfer.to_server().size());
            break;
        }
        relay.transfer.append(Bytes(buffer).first(static_cast<size_t>(got)));
    }
    return true;
}

/// A socket of which nothing is wanted is not watched at all: epoll would tell of its end again and
/// again, asked or not.
void Transfers::watch(Relay& relay) const {
    if (!relay.socket.valid()) {
        return;
    }
    const std::uint32_t interest = (relay.transfer.room() != 0 ? EPOLLIN : 0U) |
                                   (relay.transfer.to_server().empty() ? 0U : EPOLLOUT);
    const std::uint32_t before = std::exchange(relay.interest, interest);
    if (interest != before) {
        const int change = interest == 0 ? EPOLL_CTL_DEL
                           : before == 0 ? EPOLL_CTL_ADD
                                         : EPOLL_CTL_MOD;
        epoll_event event{.events = interest, .data = {.fd = relay.socket.get()}};
        static_cast<void>(epoll_ctl(epoll_, change, relay.socket.get(), &event));
    }
}

} // namespace reprise::proxy::stateless
