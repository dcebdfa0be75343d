#pragma once
// Packets on their way: each is kept until its time has come, in bounded memory.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace reprise::proxy {

struct DelayLineLimits {
    size_t packets = size_t{1} << 20U;
    size_t bytes = size_t{256} << 20U; ///< of all packets; each takes some 150 more
};

class DelayLine {
public:
    explicit DelayLine(DelayLineLimits limits = {}) : limits_(limits) {}

    /// Copies the packet. False where a limit is reached.
    bool push(Nanoseconds due, Bytes packet) {
        if (line_.size() >= limits_.packets || packet.size() > limits_.bytes - bytes_) {
            return false;
        }
        bytes_ += packet.size();
        // With a constant delay it is the latest, which takes constant time.
        line_.emplace_hint(line_.end(), due,
                           std::vector<std::uint8_t>(packet.begin(), packet.end()));
        return true;
    }

    /// When the next packet is due; none where the line is empty.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const {
        return line_.empty() ? std::nullopt : std::optional(line_.begin()->first);
    }

    /// Hands the packets that are due at `now` to `take(Nanoseconds due, Bytes packet)`, earliest
    /// first, those of one time as they came, at most `most`. The bytes are valid during the call;
    /// `take` must not push. Returns their number.
    template <typename Take> size_t pop_due(Nanoseconds now, Take&& take, size_t most = SIZE_MAX) {
        size_t count = 0;
        for (; count < most && !line_.empty() && line_.begin()->first <= now; ++count) {
            const auto& [due, packet] = *line_.begin();
            take(due, Bytes(packet));
            bytes_ -= packet.size();
            line_.erase(line_.begin());
        }
        return count;
    }

    [[nodiscard]] size_t size() const { return line_.size(); }

private:
    DelayLineLimits limits_;
    std::multimap<Nanoseconds, std::vector<std::uint8_t>> line_; ///< by when they are due
    size_t bytes_ = 0;
};

} // namespace reprise::proxy
