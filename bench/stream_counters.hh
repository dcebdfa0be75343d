#pragma once
// What the processes of reprise-stream-sink count, in memory that they and their parent share.

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace reprise::bench {

using Counter = std::atomic<std::uint64_t>;

inline constexpr std::size_t kMostProcesses = 64;
/// Distinct sources are told apart by the last 20 bits of their address.
inline constexpr std::size_t kSourceBits = std::size_t{1} << 20U;

inline void count(Counter& counter, std::uint64_t by = 1) {
    counter.fetch_add(by, std::memory_order_relaxed);
}

/// Connections that stand now and the most that ever stood.
struct OpenNow {
    Counter open{0};
    Counter peak{0};

    void up() {
        const std::uint64_t now = open.fetch_add(1, std::memory_order_relaxed) + 1;
        std::uint64_t most = peak.load(std::memory_order_relaxed);
        while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
        }
    }

    void down() { open.fetch_sub(1, std::memory_order_relaxed); }
};

struct StreamCounters {
    Counter queries{0};     ///< whole messages read, each answered
    Counter query_bytes{0}; ///< of these, without their length prefixes
    Counter reads{0};       ///< that held at least one whole message: so many sends
    Counter connections{0};
    Counter handshakes{0}; ///< TLS handshakes that came to their end
    Counter resumed{0};    ///< of these
    Counter early_data{0}; ///< of these: early data taken
    Counter failed{0};     ///< connections that ended in an error: reset, handshake, no DNS message
    Counter closed_by_client{0};
    Counter closed_idle{0};
    OpenNow open;
};

struct SharedCounters {
    OpenNow open; ///< of all processes together
    std::array<StreamCounters, kMostProcesses> process;
    std::array<Counter, kSourceBits / 64> sources;

    void saw_source(std::uint32_t number) {
        const std::uint32_t bit = number % kSourceBits;
        Counter& word = sources.at(bit / 64);
        const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
        if ((word.load(std::memory_order_relaxed) & mask) == 0) {
            word.fetch_or(mask, std::memory_order_relaxed);
        }
    }

    [[nodiscard]] std::uint64_t source_count() const {
        std::uint64_t sum = 0;
        for (const Counter& word : sources) {
            sum += static_cast<std::uint64_t>(std::popcount(word.load()));
        }
        return sum;
    }
};

} // namespace reprise::bench
