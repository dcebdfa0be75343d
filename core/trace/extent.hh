#pragma once
// How much a trace holds, told by its beginning, so that nobody has to read all of it to know.

#include "core/base/clock.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::trace {

/// Of a whole trace, or of the part that is wanted. Zeros stand for what is not known.
struct Extent {
    double queries = 0;
    double span_s = 0; ///< from the first query to the last

    /// One line of key=value, for whoever started the program.
    [[nodiscard]] std::string line() const {
        return fmt::format("extent queries={:.0f} span_s={:.3f}", queries, span_s);
    }
};

/// The queries at the beginning, and where in the file they were.
class Sample {
public:
    static constexpr std::uint64_t kEnough = 100'000; ///< messages, a tenth of a second's reading

    /// `share_read`: as Feed says, behind the query.
    void add(Nanoseconds time, double share_read) {
        if (!any()) {
            first_ = last_ = time;
            first_share_ = share_read;
        }
        ++queries_;
        last_ = std::max(last_, time);
        last_share_ = share_read;
    }

    [[nodiscard]] bool any() const { return queries_ > 0; }

    /// Whether the file is to be read further; asked after each message.
    [[nodiscard]] bool wants_more() { return !any() || ++messages_ < kEnough; }

    /// No query follows.
    void end() { ended_ = true; }

    /// What follows is taken to be like the sample: as many queries a second, and seconds a byte of
    /// the file. `until`: where the wanted part ends, if before the file does.
    [[nodiscard]] Extent extent(std::optional<Nanoseconds> until = std::nullopt) const {
        const auto seconds = [](Nanoseconds time) { return static_cast<double>(time) / 1e9; };
        const double span = seconds(last_) - seconds(first_);
        const double seen = last_share_ - first_share_;
        double times = 1; // by which the wanted part is longer than the sample
        if (!ended_) {
            times = seen > 0 ? (1 - first_share_) / seen : 0;
            if (until && span > 0) {
                const double wanted = (seconds(*until) - seconds(first_)) / span;
                times = times > 0 ? std::min(times, wanted) : wanted;
            }
        }
        return {.queries = static_cast<double>(queries_) * times, .span_s = span * times};
    }

private:
    std::uint64_t queries_ = 0;
    std::uint64_t messages_ = 0; ///< since the first query
    Nanoseconds first_ = 0;
    Nanoseconds last_ = 0; ///< the latest
    double first_share_ = 0;
    double last_share_ = 0;
    bool ended_ = false;
};

} // namespace reprise::trace
