// Rules that set the times of queries.

#include "core/base/random.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::rules {

namespace {

double need_number(Arguments& arguments, std::string_view key, double low, double high) {
    const auto value = arguments.get_number(key, low, high);
    if (!value) {
        arguments.fail({}, fmt::format("has no {}=; give one from {} to {}", key, low, high));
    }
    return *value;
}

/// Where the rate bends: `rate` queries/s at `seconds` from the first query.
struct RatePoint {
    double seconds = 0;
    double rate = 0;
};

/// Linear between the points; before the first its rate, behind the last its rate. Two points at
/// the same second are a step.
class RateProfile {
public:
    /// At least one point, seconds not falling, rates not negative, the last above 0.
    explicit RateProfile(std::vector<RatePoint> points) : points_(std::move(points)) {
        if (points_.front().seconds > 0) {
            points_.insert(points_.begin(), RatePoint{.seconds = 0, .rate = points_.front().rate});
        }
    }

    /// The time in seconds at which `count` queries (not necessarily whole ones) are due: the
    /// inverse of the rate's integral. `count` must not fall from call to call.
    // With rate a at the piece's beginning and slope s, q queries take the x for which
    // a x + s x^2 / 2 = q: x = 2 q / (a + sqrt(a^2 + 2 s q)), which also holds for s = 0.
    double time_of(double count) {
        for (; piece_ + 1 < points_.size() && before_ + piece_queries() < count; ++piece_) {
            before_ += piece_queries();
        }
        const RatePoint& from = points_[piece_];
        const double due = count - before_;
        if (due <= 0) {
            return from.seconds;
        }
        double slope = 0;
        if (piece_ + 1 < points_.size()) {
            slope = (points_[piece_ + 1].rate - from.rate) /
                    (points_[piece_ + 1].seconds - from.seconds);
        }
        const double root = std::sqrt(std::max(0.0, from.rate * from.rate + 2 * slope * due));
        return from.seconds + 2 * due / (from.rate + root);
    }

private:
    /// Of the piece between points piece_ and piece_ + 1.
    [[nodiscard]] double piece_queries() const {
        const RatePoint& from = points_[piece_];
        const RatePoint& to = points_[piece_ + 1];
        return (to.seconds - from.seconds) * (from.rate + to.rate) / 2;
    }

    std::vector<RatePoint> points_;
    size_t piece_ = 0;
    double before_ = 0; ///< queries due before the piece
};

/// Moves by a shift: one that does not fit the trace is refused.
Nanoseconds shifted(Nanoseconds time, Nanoseconds shift) {
    time = std::max<Nanoseconds>(time, 0);
    return in_range(shift < -time ? -1 : added(time, shift), "shift",
                    "give a seconds= nearer to 0");
}

/// Gives nanoseconds from the first query to query number 0, 1, 2, ...; they never fall.
using ArrivalOf = std::function<double(std::uint64_t number)>;

/// Sets the time of every query from its number alone. The first query keeps its time. The close of
/// a connection keeps its place in the order: it comes as long after the query before it as it did,
/// but at the latest with the next query's arrival.
class ArrivalRule : public Rule {
public:
    /// The selector takes everything.
    ArrivalRule(Selector selector, ArrivalOf arrivals)
        : Rule(std::move(selector)), arrivals_(std::move(arrivals)) {}

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        if (!std::exchange(started_, true)) {
            first_ = current_ = old_ = std::max<Nanoseconds>(query.time, 0);
            next_ = added(first_, arrivals_(0));
        }
        current_ = next_time(query);
        old_ = query.time;
        return set(query.time, current_);
    }

    Nanoseconds next_time(const Query& query) {
        if (query.is_close()) {
            const Nanoseconds behind = std::max<Nanoseconds>(query.time - old_, 0);
            return std::max(current_, std::min(added(current_, behind), next_));
        }
        const Nanoseconds time =
            in_range(next_, "gap, poisson or profile", "give a smaller gap or a greater rate");
        next_ = added(first_, arrivals_(++queries_));
        return time;
    }

    ArrivalOf arrivals_;
    std::uint64_t queries_ = 0;
    Nanoseconds first_ = 0;
    Nanoseconds next_ = 0;    ///< of the next query
    Nanoseconds old_ = 0;     ///< time of the last query as it came
    Nanoseconds current_ = 0; ///< and as it is now
    bool started_ = false;
};

/// Divides the gap before every query taken by `factor`; gaps before others stay. So the order is
/// kept whatever is taken, and the whole trace, or a span of it, runs faster or slower. The gap
/// before a close is that of the query before it.
class SpeedRule : public Rule {
public:
    SpeedRule(Arguments& arguments, const RuleSettings& settings)
        : Rule(Selector(arguments, settings.seed, Closes::kNone)),
          factor_(need_number(arguments, "factor", 1e-6, 1e6)) {}

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        taken_ = true;
        return set(query.time, next_time(query));
    }

    Outcome leave(Query& query) override {
        taken_ = taken_ && query.is_close();
        return set(query.time, next_time(query));
    }

    // The sums are whole numbers, so that no rounding adds up over the trace.
    Nanoseconds next_time(const Query& query) {
        if (!std::exchange(started_, true)) {
            first_ = old_ = query.time;
        }
        (taken_ ? fast_ : kept_) += query.time - old_;
        old_ = query.time;
        return in_range(
            added(std::max<Nanoseconds>(first_ + kept_, 0), static_cast<double>(fast_) / factor_),
            "speed", "give a greater factor=");
    }

    double factor_;
    bool started_ = false;
    bool taken_ = false; ///< the last query
    Nanoseconds first_ = 0;
    Nanoseconds old_ = 0;  ///< of the last query
    Nanoseconds kept_ = 0; ///< sums of the gaps as they were: not taken
    Nanoseconds fast_ = 0; ///< and taken
};

/// Moves all queries by the same time.
class ShiftRule : public Rule {
public:
    /// The selector takes everything.
    ShiftRule(Selector selector, Nanoseconds shift) : Rule(std::move(selector)), shift_(shift) {}

private:
    Outcome change(Query& query, Batch& /*batch*/) override {
        return set(query.time, shifted(query.time, shift_));
    }

    Nanoseconds shift_;
};

/// Moves every query taken by a time drawn from [low, high], others not, and restores the order.
/// Closes move by the most that a query may, so that none comes before a query of its connection.
/// Holds the queries of up to high - low of trace time (or of |shift|, where some are not taken).
/// A query that would come before 1970 is moved to its begin; where low is high, that is an error.
class DelayRule : public Rule {
public:
    /// The selector takes no close.
    DelayRule(Selector selector, Nanoseconds low, Nanoseconds high, std::uint64_t seed)
        : Rule(std::move(selector)), low_(low), high_(high), random_(seed) {}

    void apply(Batch& batch) override {
        incoming_.swap(batch.queries);
        for (Query& query : incoming_) {
            newest_ = std::max(newest_, query.time);
            const Nanoseconds moved = delay(query);
            const Nanoseconds time = low_ == high_
                                         ? shifted(query.time, moved)
                                         : added(std::max<Nanoseconds>(query.time, 0), moved);
            changed_ += set(query.time, time) == Outcome::kChanged && !query.is_close() ? 1U : 0U;
            held_.put(time, query);
            release(newest_ + std::min<Nanoseconds>(low_, 0), batch);
        }
        incoming_.clear();
    }

    [[nodiscard]] bool holds() const override { return true; }

    void finish(Batch& batch) override { release(kLastTime, batch); }

private:
    /// Appends what is due up to and including `until`.
    void release(Nanoseconds until, Batch& batch) {
        while (held_.due(until)) {
            Query& query = batch.queries.emplace_back(held_.take());
            query.message = batch.copy(query.message);
        }
    }

    Nanoseconds delay(const Query& query) {
        if (takes(query)) {
            const auto width = static_cast<std::uint64_t>(high_ - low_);
            return low_ + static_cast<Nanoseconds>(random_.between(0, width));
        }
        return query.is_close() ? std::max<Nanoseconds>(high_, 0) : 0;
    }

    Nanoseconds low_;
    Nanoseconds high_;
    Random random_;
    WaitingMessages held_;        ///< by new time; 200 bytes each and the message
    std::vector<Query> incoming_; ///< a batch's queries while it is filled anew
    Nanoseconds newest_ = 0;      ///< old time
    std::uint64_t& changed_ = count("changed");
};

// Those that set every query's time (gap, poisson, profile) take no share and no
// filter: two clocks in one trace have no order.

constexpr double kMostRate = 1e9; ///< queries/s
constexpr size_t kMostPoints = 10'000;

/// Of trace time that is held in memory to restore the order.
constexpr double kMostJitter = 60e6; ///< us either way
constexpr Nanoseconds kMostHeld = 3600 * kSecond;

/// A selector that takes everything, closes too.
Selector need_all(Arguments& arguments, std::uint64_t seed) {
    if (!arguments.takes_all()) {
        arguments.fail({}, "sets the time of every query and takes no share and no where; leave "
                           "them out");
    }
    return {arguments, seed, Closes::kBySource}; // its keys are known, so that share=100 passes
}

std::unique_ptr<Rule> make_shift(Arguments& arguments, const RuleSettings& settings) {
    const auto text = arguments.get_text("seconds");
    const auto shift = text ? parse_seconds(*text, true) : std::nullopt;
    if (!shift) {
        arguments.fail("seconds", "must be seconds with at most 9 decimals, like 3600 or -0.5");
    }
    const bool all = arguments.takes_all();
    if (!all && (*shift > kMostHeld || *shift < -kMostHeld)) {
        arguments.fail("seconds", "with share or where is at most 3600 either way, as that much of "
                                  "the trace is held in memory; shift two files and merge them");
    }
    Selector selector(arguments, settings.seed, all ? Closes::kBySource : Closes::kNone);
    if (all) {
        return std::make_unique<ShiftRule>(std::move(selector), *shift);
    }
    return std::make_unique<DelayRule>(std::move(selector), *shift, *shift, settings.seed);
}

std::unique_ptr<Rule> make_jitter(Arguments& arguments, const RuleSettings& settings) {
    const double us = need_number(arguments, "us", 0, kMostJitter);
    const auto most = static_cast<Nanoseconds>(std::llround(us * 1e3));
    return std::make_unique<DelayRule>(Selector(arguments, settings.seed, Closes::kNone), -most,
                                       most, settings.seed);
}

std::unique_ptr<Rule> make_gap(Arguments& arguments, const RuleSettings& settings) {
    Selector selector = need_all(arguments, settings.seed);
    const double gap = need_number(arguments, "ms", 0, 1e9) * 1e6;
    return std::make_unique<ArrivalRule>(std::move(selector), [gap](std::uint64_t number) {
        return static_cast<double>(number) * gap;
    });
}

std::unique_ptr<Rule> make_poisson(Arguments& arguments, const RuleSettings& settings) {
    Selector selector = need_all(arguments, settings.seed);
    const double rate = need_number(arguments, "rate", 1e-3, kMostRate);
    return std::make_unique<ArrivalRule>(
        std::move(selector),
        [arrivals = Arrivals(Arrival::kPoisson, rate), random = Random(settings.seed)](
            std::uint64_t /*number*/) mutable { return arrivals.next(random); });
}

std::optional<double> number_of(std::string_view text) {
    const auto value = parse_number<double>(text);
    return value && *value >= 0 && *value <= kMostRate ? value : std::nullopt;
}

RatePoint point_of(const Arguments& arguments, std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    const auto seconds = number_of(text.substr(0, colon));
    const auto rate =
        colon < text.size() ? number_of(text.substr(colon + 1)) : std::optional<double>();
    if (!seconds || !rate) {
        arguments.fail("points", fmt::format("\"{}\" is not SECONDS:RATE with numbers from 0 to "
                                             "1e9, like 60:5000",
                                             text));
    }
    return {.seconds = *seconds, .rate = *rate};
}

std::vector<RatePoint> points_of(Arguments& arguments) {
    std::vector<RatePoint> points;
    for (const std::string& text : arguments.get_list("points")) {
        points.push_back(point_of(arguments, text));
        if (points.size() > 1 && points.back().seconds < points[points.size() - 2].seconds) {
            arguments.fail("points", fmt::format("\"{}\" is earlier than the point before it; give "
                                                 "them in order",
                                                 text));
        }
    }
    if (points.empty() || points.size() > kMostPoints || points.back().rate <= 0) {
        arguments.fail("points", fmt::format("must be 1 to {} points, the last with a rate above 0",
                                             kMostPoints));
    }
    return points;
}

std::unique_ptr<Rule> make_profile(Arguments& arguments, const RuleSettings& settings) {
    Selector selector = need_all(arguments, settings.seed);
    RateProfile profile(points_of(arguments));
    const bool poisson = arguments.get_switch("poisson").value_or(false);
    return std::make_unique<ArrivalRule>(
        std::move(selector), [profile = std::move(profile), poisson, random = Random(settings.seed),
                              count = 0.0](std::uint64_t number) mutable {
            count =
                poisson && number > 0 ? count + random.exponential(1) : static_cast<double>(number);
            return profile.time_of(count) * 1e9;
        });
}

} // namespace

std::vector<RuleKind> time_rules() {
    return {
        {"speed", "factor",
         "the gap before every query taken is divided by factor=: 2 plays twice as fast",
         make<SpeedRule>, Effect::kTimes},
        {"shift", "seconds",
         "times move by seconds=, which may be negative; with share or where the order is restored "
         "(up to 3600 s of the trace in memory)",
         make_shift},
        {"gap", "ms", "queries follow each other every ms= milliseconds, from the first one's time",
         make_gap, Effect::kNewTimes},
        {"poisson", "rate",
         "queries arrive as a Poisson process of rate= queries/s, from the first one's time",
         make_poisson, Effect::kNewTimes},
        {"jitter", "us",
         "times move by up to us= microseconds either way (at most 60000000: twice us= of the "
         "trace is in memory), drawn evenly; the order is restored",
         make_jitter, Effect::kTimes},
        {"profile", "points",
         "queries arrive at a rate that changes: points=SECONDS:RATE,... from the first query, "
         "linear between them, equal seconds are a step, the last rate stays; poisson=on (off: "
         "evenly spaced)",
         make_profile, Effect::kNewTimes},
    };
}

} // namespace reprise::rules
