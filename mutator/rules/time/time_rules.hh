#pragma once
// Rules that set the times of queries.

#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace reprise::mutator {

// A rate of queries that changes with time.

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
    explicit RateProfile(std::vector<RatePoint> points);

    /// The time in seconds at which `count` queries (not necessarily whole ones) are due: the
    /// inverse of the rate's integral. `count` must not fall from call to call.
    double time_of(double count);

private:
    /// Of the piece between points piece_ and piece_ + 1.
    [[nodiscard]] double piece_queries() const;

    std::vector<RatePoint> points_;
    size_t piece_ = 0;
    double before_ = 0; ///< queries due before the piece
};

// Rules that set the time of every query from its number alone: gap, poisson, profile.

/// Gives nanoseconds from the first query to query number 0, 1, 2, ...; they never fall.
using Arrivals = std::function<double(std::uint64_t number)>;

/// The first query keeps its time. The close of a connection keeps its place in the order: it comes
/// as long after the item before it as it did, but at the latest with the next query's arrival.
class ArrivalRule : public Rule {
public:
    explicit ArrivalRule(Arrivals arrivals) : arrivals_(std::move(arrivals)) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds next_time(const Item& item);
    void start(const Item& item);

    Arrivals arrivals_;
    std::uint64_t queries_ = 0;
    std::uint64_t changed_ = 0;
    Nanoseconds first_ = 0;
    Nanoseconds next_ = 0;    ///< of the next query
    Nanoseconds old_ = 0;     ///< time of the last item as it came
    Nanoseconds current_ = 0; ///< and as it is now
    bool started_ = false;
};

// Puts queries whose times were changed back into order.

/// Holds queries until nothing earlier can come. Equal times keep the order of put(). Memory: about
/// 150 bytes and the message for each query held; kept for reuse.
class Reorder {
public:
    /// Copies the item; `time` is its new time.
    void put(const Item& item, Nanoseconds time);

    /// Appends what is due up to and including `until`, in order, with messages copied into the
    /// batch.
    void release(Nanoseconds until, Batch& batch);

    /// Held now.
    [[nodiscard]] size_t size() const { return heap_.size(); }

private:
    struct Slot {
        Item item; ///< its message is in `bytes`
        std::vector<std::uint8_t> bytes;
    };

    struct Entry {
        Nanoseconds time;
        std::uint64_t order;
        std::uint32_t slot;
    };

    static bool is_later(const Entry& a, const Entry& b);
    std::uint32_t free_slot();

    std::vector<Entry> heap_; ///< the earliest on top
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::uint64_t order_ = 0;
};

// Rules that move queries in time by what their old times say: speed, shift, jitter.

/// Divides the gap before every query taken by `factor`; gaps before others stay. So the order is
/// kept whatever is taken, and the whole trace, or a span of it, runs faster or slower. The gap
/// before a close is that of the query before it.
class SpeedRule : public Rule {
public:
    SpeedRule(Selector selector, double factor) : selector_(std::move(selector)), factor_(factor) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds next_time(const Item& item);

    Selector selector_;
    double factor_;
    bool started_ = false;
    bool taken_ = false; ///< the last query
    Nanoseconds first_ = 0;
    Nanoseconds old_ = 0;  ///< of the last item
    Nanoseconds kept_ = 0; ///< sums of the gaps as they were: not taken
    Nanoseconds fast_ = 0; ///< and taken
    std::uint64_t changed_ = 0;
};

/// Moves all items by the same time.
class ShiftRule : public Rule {
public:
    ShiftRule(Selector selector, Nanoseconds shift)
        : selector_(std::move(selector)), shift_(shift) {}

    void apply(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Selector selector_;
    Nanoseconds shift_;
    std::uint64_t changed_ = 0;
};

/// Moves every query taken by a time drawn from [low, high], others not, and restores the order.
/// Closes move by the most that a query may, so that none comes before a query of its connection.
/// Holds the queries of up to high - low of trace time (or of |shift|, where some are not taken).
/// A query that would come before 1970 is moved to its begin; where low is high, that is an error.
class DelayRule : public Rule {
public:
    DelayRule(Selector selector, Nanoseconds low, Nanoseconds high, std::uint64_t seed)
        : selector_(std::move(selector)), low_(low), high_(high), random_(seed) {}

    void apply(Batch& batch) override;
    void finish(Batch& batch) override;
    [[nodiscard]] RuleCounts counts() const override;

private:
    Nanoseconds delay(const Item& item);

    Selector selector_;
    Nanoseconds low_;
    Nanoseconds high_;
    Random random_;
    Reorder held_;
    std::vector<Item> incoming_; ///< a batch's items while it is filled anew
    Nanoseconds newest_ = 0;     ///< old time
    std::uint64_t changed_ = 0;
};

} // namespace reprise::mutator
