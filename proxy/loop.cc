#include "proxy/loop.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/statistics.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace reprise::proxy {

namespace {

constexpr size_t kLargestPacket = 65'535;
constexpr int kBatch = 64;
constexpr size_t kMostReleased = 256; // 1 ms at most

} // namespace

Loop::Loop(const Device& device, Routes routes, DelayModel* model, LinkSender* link,
           Statistics& statistics, const Clock& clock)
    : device_(device), routes_(std::move(routes)), model_(model), link_(link),
      statistics_(statistics), clock_(clock), buffer_(kLargestPacket) {}

void Loop::read_batch() {
    try {
        for (int i = 0; i < kBatch; ++i) {
            const std::span<std::uint8_t> packet = device_.read(buffer_);
            if (packet.empty()) {
                break;
            }
            take(packet);
        }
    } catch (...) {
        flush(); // what was read before the error is counted
        throw;
    }
    flush();
}

void Loop::take(std::span<std::uint8_t> packet) {
    ++statistics_.read;
    const Outcome outcome = rewrite(packet, routes_);
    statistics_.count(outcome);
    if (outcome.verdict == Verdict::kUnmapped) {
        statistics_.unmapped.add(deciding_address(packet, outcome));
    } else if (goes_on(outcome.verdict)) {
        if (model_ != nullptr) {
            hold(packet, outcome);
        } else {
            send(packet);
        }
    }
}

void Loop::hold(std::span<const std::uint8_t> packet, const Outcome& outcome) {
    const DrawnDelay drawn = model_->draw(deciding_address(packet, outcome));
    statistics_.unlisted += drawn.listed ? 0 : 1;
    if (drawn.lost) {
        ++statistics_.lost;
        statistics_.dropped += outcome.traffic == Traffic::kDatagram ? 1 : 0;
        return;
    }
    statistics_.overflow += line_.push(clock_.now() + drawn.delay, packet) ? 0U : 1U;
    statistics_.in_line = line_.size();
}

void Loop::release_due(Nanoseconds now) {
    const auto out = [this](Nanoseconds due, Bytes packet) {
        send(packet);
        released_.push_back(due);
    };
    if (line_.pop_due(now, out, kMostReleased) != 0) {
        statistics_.in_line = line_.size();
        flush();
    }
}

void Loop::send(Bytes packet) {
    if (link_ != nullptr && link_->add(packet)) {
        if (link_->full()) {
            flush();
        }
    } else {
        write(packet);
    }
}

void Loop::flush() {
    if (link_ != nullptr) {
        const auto result = link_->flush([this](Bytes packet) { write(packet); });
        statistics_.written += result.sent;
        statistics_.refused += result.too_long;
    }
    const Nanoseconds now = released_.empty() ? 0 : clock_.now();
    for (const Nanoseconds due : released_) {
        statistics_.delay_error.add(now - due);
    }
    released_.clear();
}

void Loop::write(Bytes packet) {
    ++(device_.write(packet) ? statistics_.written : statistics_.refused);
}

} // namespace reprise::proxy
