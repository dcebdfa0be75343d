#pragma once
// Which queries of a trace are not handed to a querier, and why; and when the others are due.

#include "controller/options.hh"
#include "core/base/clock.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/batch.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace reprise::controller {

/// Why a query is left out; the names stand in controller.json (docs/formats.md).
enum class Skip : std::uint8_t {
    kNone,
    kNotify, ///< of this opcode, which changes servers (unless all_opcodes)
    kUpdate, ///< the same
    kNoIpv4Server,
    kNoIpv6Server,
    kSourcePrefix,   ///< replay.skip_sources
    kSourceUnusable, ///< no answer could reach its address (modes addresses and packet)
    kSample,         ///< its source is not of the sample (as `--keep share=10,by=source`)
    kFrom,           ///< before replay.from
    kRetransmit,     ///< replay.collapse_retransmits
    kTransport,      ///< over QUIC or HTTPS, which are not played (without replay.transport)
    kDuration,       ///< read, but replay.duration_s was over before it was handed out (fast)
    kCount
};

/// Name of a reason as in controller.json.
const char* skip_name(Skip reason);

/// The choice as rules of the mutator: each leaves queries out for a reason of its own.
class Selection {
public:
    Selection(const Options& options, const Servers& servers);

    /// Why the query is left out, which is the first rule's reason; kNone: it is not.
    Skip judge(Query& query);

    /// The trace begins again: nothing repeats a query of the lap before.
    void restart();

private:
    struct NamedRule {
        Skip reason;
        rules::RuleSet set; ///< it alone
        std::unique_ptr<rules::Rule> rule;
    };

    void add(Skip reason, const std::string& kind, const std::string& key,
             std::vector<std::string> values);
    void add_of_sources(const Options& options, const Servers& servers);

    std::vector<NamedRule> rules_;
    Batch batch_; ///< no rule here makes anything
};

/// Counts of skipped queries by reason.
class SkipCounts {
public:
    void add(Skip reason) { ++counts_[static_cast<size_t>(reason)]; }

    [[nodiscard]] std::uint64_t sum() const;

    [[nodiscard]] std::uint64_t of(Skip reason) const {
        return counts_[static_cast<size_t>(reason)];
    }

    /// Those that are not zero, by name.
    [[nodiscard]] std::map<std::string, std::uint64_t> named() const;

private:
    std::array<std::uint64_t, static_cast<size_t>(Skip::kCount)> counts_{};
};

/// When each query is due. Trace time: at its distance from the first query, divided by the speed.
/// A rate: query i at i / rate, whatever the trace says. Fast: all at once, at 0. Where a trace is
/// read several times, a lap begins one mean gap after the last query of the lap before it, so that
/// the rate goes on over the seam without a pause or a burst.
class Timetable {
public:
    explicit Timetable(const Settings& settings)
        : speed_(settings.speed), rate_(settings.rate), fast_(settings.fast) {}

    /// Due time of the query of this trace time (of this lap, shifted()), if it is the next one.
    [[nodiscard]] Nanoseconds due(Nanoseconds time) const {
        if (fast_) {
            return 0;
        }
        if (rate_ > 0) {
            return by_rate(taken_);
        }
        const Nanoseconds since = taken_ == 0 ? 0 : time - first_;
        constexpr double kMost = 4e18; // a century; the difference of two fits into 64 bits
        return speed_ == 1
                   ? since
                   : std::llround(std::clamp(static_cast<double>(since) / speed_, -kMost, kMost));
    }

    /// Due time of what happened at this trace time after a query: with a rate, that of the query.
    /// Needs a query taken.
    [[nodiscard]] Nanoseconds due_of_close(Nanoseconds time) const {
        return rate_ > 0 && !fast_ ? by_rate(taken_ - 1) : due(time);
    }

    /// The query is handed out: the next one follows.
    void take(Nanoseconds time) {
        if (taken_++ == 0) {
            first_ = time;
        }
        if (taken_in_lap_++ == 0) {
            lap_first_ = lap_last_ = time;
        }
        lap_last_ = std::max(lap_last_, time);
    }

    /// The trace begins again.
    void next_lap() {
        shift_ += lap_last_ - lap_first_ + mean_gap();
        taken_in_lap_ = 0;
    }

    /// A trace time of this lap on the axis that goes on over all laps.
    [[nodiscard]] Nanoseconds shifted(Nanoseconds time) const { return time + shift_; }

    /// Queries taken in this lap, and in all.
    [[nodiscard]] std::uint64_t taken_in_lap() const { return taken_in_lap_; }

    [[nodiscard]] std::uint64_t taken() const { return taken_; }

private:
    [[nodiscard]] Nanoseconds by_rate(std::uint64_t query) const {
        // long double: 64 bits of mantissa keep nanoseconds over centuries
        return std::llroundl(static_cast<long double>(query) * 1e9L /
                             static_cast<long double>(rate_));
    }

    [[nodiscard]] Nanoseconds mean_gap() const {
        const Nanoseconds span = lap_last_ - lap_first_;
        if (span == 0) {
            return kSecond; // a trace of one moment has no gap; a second ends the burst
        }
        return std::max<Nanoseconds>(span / static_cast<Nanoseconds>(taken_in_lap_ - 1), 1);
    }

    double speed_;
    double rate_; ///< queries a second; 0: trace time
    bool fast_;
    Nanoseconds first_ = 0; ///< of the whole replay
    std::uint64_t taken_ = 0;
    Nanoseconds lap_first_ = 0; ///< of this lap, on the axis of all laps
    Nanoseconds lap_last_ = 0;  ///< the latest
    std::uint64_t taken_in_lap_ = 0;
    Nanoseconds shift_ = 0; ///< of this lap's times
};

} // namespace reprise::controller
