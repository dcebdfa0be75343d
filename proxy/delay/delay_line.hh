#pragma once
// Packets on their way: each is kept until its time has come, in bounded memory.
//
// A binary heap orders 32-byte entries by (due, order of arrival), so packets that are due together
// leave as they came. Their bytes lie in buffers of a few sizes that are kept for the next packet
// once they were made: in a steady state nothing is allocated. With a constant delay every new
// entry is the latest, which a heap takes in constant time; taking one out costs a logarithm of
// what is on its way (11 steps at 20,000 packets/s and 100 ms).

#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::proxy {

// How far packets left from when they were due: a distribution in constant memory.

/// Counts |written - due| in buckets of at most 3.2 % (below 64 ns: of 1 ns); the maximum is exact.
class DelayError {
public:
    void add(Nanoseconds error);

    [[nodiscard]] std::uint64_t packets() const { return packets_; }

    [[nodiscard]] Nanoseconds max() const { return max_; }

    /// The value at a share from 0 to 1 by nearest rank: its bucket's upper end, at most max().
    [[nodiscard]] Nanoseconds quantile(double share) const;

private:
    static constexpr unsigned kSteps = 32; ///< buckets for each doubling

    static size_t bucket_of(std::uint64_t value);
    static std::uint64_t upper_end(size_t bucket);

    std::array<std::uint64_t, size_t{kSteps} * 60> buckets_{};
    std::uint64_t packets_ = 0;
    Nanoseconds max_ = 0;
};

struct DelayLineLimits {
    size_t packets = size_t{1} << 20U;
    size_t bytes = size_t{256} << 20U; ///< of all buffers; each is at most twice its packet, or 128
};

class DelayLine {
public:
    explicit DelayLine(DelayLineLimits limits = {}) : limits_(limits) {}

    /// Copies the packet. False where a limit is reached: then it is dropped and counted in
    /// overflow().
    bool push(Nanoseconds due, Bytes packet);

    /// When the next packet is due; none where the line is empty.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const {
        return heap_.empty() ? std::nullopt : std::optional(heap_.front().due);
    }

    /// Hands the packets that are due at `now` to `take(Nanoseconds due, Bytes packet)`, earliest
    /// first, at most `most`. The bytes are valid during the call; `take` must not push. Returns
    /// their number.
    template <typename Take> size_t pop_due(Nanoseconds now, Take&& take, size_t most = SIZE_MAX) {
        size_t count = 0;
        for (; count < most && !heap_.empty() && heap_.front().due <= now; ++count) {
            Entry entry = remove_front();
            take(entry.due, Bytes(entry.buffer.get(), entry.length));
            free_.at(entry.size_class).push_back(std::move(entry.buffer));
        }
        return count;
    }

    [[nodiscard]] size_t size() const { return heap_.size(); }

    /// Bytes of all buffers, also of those that wait for their next packet.
    [[nodiscard]] size_t bytes() const { return bytes_; }

    /// Packets dropped because the line was full.
    [[nodiscard]] std::uint64_t overflow() const { return overflow_; }

private:
    using Buffer = std::unique_ptr<std::uint8_t[]>;

    struct Entry {
        Nanoseconds due;
        std::uint64_t order;
        Buffer buffer;
        std::uint32_t length;
        std::uint32_t size_class;
    };

    /// Buffer sizes; the last holds the largest IP packet.
    static constexpr std::array<size_t, 10> kSizes{128,   256,   512,    1'024,  2'048,
                                                   4'096, 8'192, 16'384, 32'768, 65'536};

    static bool later(const Entry& a, const Entry& b) {
        return a.due != b.due ? a.due > b.due : a.order > b.order;
    }

    Entry remove_front();
    Buffer take_buffer(size_t size_class);
    void free_idle();

    DelayLineLimits limits_;
    std::vector<Entry> heap_;
    std::array<std::vector<Buffer>, kSizes.size()> free_;
    size_t bytes_ = 0;
    std::uint64_t arrivals_ = 0;
    std::uint64_t overflow_ = 0;
};

} // namespace reprise::proxy
