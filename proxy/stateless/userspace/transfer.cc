#include "proxy/stateless/userspace/transfer.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::proxy::stateless {

namespace {

constexpr Nanoseconds kFirstWait = 300 * kMillisecond;
constexpr Nanoseconds kMostWait = 5 * kSecond;
constexpr unsigned kRepeated = 3;          // acknowledgements that tell of a loss
constexpr size_t kFirstSegments = 10;      // RFC 6928
constexpr size_t kMostCongestion = 65'535; // no more than a window

std::ptrdiff_t offset(size_t count) { return static_cast<std::ptrdiff_t>(count); }

} // namespace

Transfer::Transfer(const Segment& first, std::uint16_t mss, Nanoseconds now)
    : connection_(first.connection), mss_(mss), first_(first.ack), next_(first.ack),
      most_(first.ack), expect_(first.seq), window_(first.window),
      congestion_(kFirstSegments * mss), wait_(kFirstWait), progress_(now) {}

bool Transfer::take(const Segment& segment, Nanoseconds now) {
    if (segment.has(kRst)) { // one with another number may be anybody's
        reset_ = reset_ || segment.seq == expect_;
        return segment.seq == expect_;
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
            .flags = static_cast<std::uint8_t>(flags),
            .mss = 0,
            .data = {}};
}

} // namespace reprise::proxy::stateless
