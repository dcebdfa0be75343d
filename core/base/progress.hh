#pragma once
// A log line every few seconds of long work, never one per query.

#include "core/base/clock.hh"

#include <cstdint>
#include <string_view>

namespace reprise {

/// Says how far long work is; short work stays silent. One of the few readers of a clock.
class Progress {
public:
    /// `check` is called whenever it looks at the clock, and may throw to end the work.
    explicit Progress(std::string_view what, void (*check)() = nullptr)
        : what_(what), check_(check), started_(SteadyClock::now()) {}

    /// Call it often with what is done and the part of the whole, 0 to 1 (0 where unknown); it
    /// looks at the clock every 32,768 calls.
    void tick(std::uint64_t done, double part) {
        if (++calls_ % kCallsPerLook == 0) {
            look(done, part);
        }
    }

    [[nodiscard]] double elapsed_s() const;

private:
    static constexpr std::uint64_t kCallsPerLook = 32'768;

    void look(std::uint64_t done, double part);

    std::string_view what_;
    void (*check_)();
    Nanoseconds started_ = 0;
    Nanoseconds printed_ = 0; ///< since started_
    std::uint64_t calls_ = 0;
};

} // namespace reprise
