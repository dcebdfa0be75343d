#pragma once
// epoll with one absolute timer. A timerfd and not epoll's own timeout: that one is rounded by a
// thousandth of its length, 10 us in 10 ms.

#include "core/base/clock.hh"
#include "core/base/fd.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/epoll.h>

namespace reprise::querier {

enum class EventKind : std::uint8_t { kTimer, kControl, kCarrier };

/// Whose event: kind, the carrier's number (0 to 63), the socket's place in its carrier, and which
/// of those that had the place it is (24 bits), so that an event for a closed socket is not taken
/// for its successor's.
struct EventTag {
    EventKind kind = EventKind::kTimer;
    std::uint8_t carrier = 0;
    std::uint32_t place = 0;
    std::uint32_t generation = 0;

    [[nodiscard]] std::uint64_t pack() const {
        return (static_cast<std::uint64_t>(kind) << 62U) |
               (static_cast<std::uint64_t>(carrier & 0x3fU) << 56U) |
               (static_cast<std::uint64_t>(generation & 0xffffffU) << 32U) | place;
    }

    static EventTag unpack(std::uint64_t packed) {
        return {.kind = static_cast<EventKind>(packed >> 62U),
                .carrier = static_cast<std::uint8_t>((packed >> 56U) & 0x3fU),
                .place = static_cast<std::uint32_t>(packed),
                .generation = static_cast<std::uint32_t>(packed >> 32U) & 0xffffffU};
    }
};

class Poller {
public:
    /// With so many from one wait() there may be more.
    static constexpr size_t kMostEvents = 256;

    Poller();

    /// Level-triggered. Throws SystemError.
    void add(int fd, std::uint32_t events, EventTag tag);
    void change(int fd, std::uint32_t events, EventTag tag);

    /// Sleeps until an event or CLOCK_MONOTONIC `wake`. A `wake` at or before `now` only looks.
    /// The events, without the timer's own, are good until the next call.
    std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake);

    /// Whether the timer ended the last wait.
    [[nodiscard]] bool timer_fired() const { return timer_fired_; }

private:
    void arm(Nanoseconds wake);

    FileDescriptor epoll_;
    FileDescriptor timer_;
    Nanoseconds armed_ = 0;
    bool timer_fired_ = false;
    std::array<epoll_event, kMostEvents + 1> events_{}; ///< the timer's, too
};

} // namespace reprise::querier
