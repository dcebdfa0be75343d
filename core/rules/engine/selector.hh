#pragma once
// Which queries a rule takes: a filter (`where`) and a share of what passes it.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/name.hh"
#include "core/rules/engine/arguments.hh"
#include "core/trace/batch.hh"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::rules {

// Choices that stick to a source address: a keyed hash of it, so that nothing is stored and a
// source is treated alike in every run with the same seed, in any file of the trace.

/// Different numbers from one seed, one for each `use` (SplitMix64's finalizer).
std::uint64_t mixed_seed(std::uint64_t seed, std::uint64_t use);

/// XXH3 of the address with the key as its seed. Not secret: it spreads, it does not hide.
std::uint64_t source_key(const IpAddress& address, std::uint64_t key);

/// So much of the numbers that are spread evenly over 64 bits lies below it; `share` is 0 to 1.
inline std::uint64_t limit_of(double share) {
    const double limit = std::ldexp(share, 64);
    return limit < 0x1p64 ? static_cast<std::uint64_t>(limit)
                          : std::numeric_limits<std::uint64_t>::max();
}

/// What a mix chooses for a source.
template <typename Value> class StickyMix {
public:
    /// `read` makes the value of an entry's text.
    template <typename Read>
    StickyMix(const std::vector<Weighted>& mix, std::uint64_t key, Read read) : key_(key) {
        double sum = 0;
        for (const Weighted& entry : mix) {
            values_.push_back(read(entry.value));
            sum += entry.weight;
        }
        double before = 0;
        for (size_t i = 0; i + 1 < mix.size(); ++i) {
            before += mix[i].weight;
            limits_.push_back(limit_of(before / sum));
        }
    }

    [[nodiscard]] const std::vector<Value>& values() const { return values_; }

    /// There must be some. A mix has few choices; counting them all needs no branch.
    [[nodiscard]] Value draw(const IpAddress& source) const {
        const std::uint64_t drawn = source_key(source, key_);
        return values_[static_cast<size_t>(
            std::ranges::count_if(limits_, [&](std::uint64_t limit) { return limit <= drawn; }))];
    }

private:
    std::vector<Value> values_;
    std::vector<std::uint64_t> limits_; ///< where the next choice begins; one less than choices
    std::uint64_t key_;
};

// The conditions of a rule's `where`.

/// Whether a query passes `where`. All conditions must hold; values of one condition are
/// alternatives, but flags must all be set. Closes of connections pass only where no condition is
/// on the message.
class Filter {
public:
    /// Takes the keys where.*; nothing where there are none.
    static std::optional<Filter> make(Arguments& arguments);

    /// Before the first matches(): the time of the trace's first query, from which seconds count.
    void begin(Nanoseconds first);

    [[nodiscard]] bool matches(const Query& query) const;

    /// What costs little of it: false only where matches() is.
    [[nodiscard]] bool may_match(const Query& query) const {
        const unsigned opcode = query.message.size() > 2 ? query.message[2] >> 3U & 0xfU : 0;
        return (transports_ & bit(query.transport)) != 0 && (opcodes_ & bit(opcode)) != 0 &&
               (families_ & bit(query.source.address.family)) != 0;
    }

    /// No condition on the time.
    [[nodiscard]] bool timeless() const { return !on_time_; }

    /// No condition on the message or the time.
    [[nodiscard]] bool same_for_connection() const { return !on_message_ && !on_time_; }

private:
    static constexpr std::uint32_t kAny = ~std::uint32_t{0};

    template <typename T> static constexpr std::uint32_t bit(T value) {
        return 1U << static_cast<unsigned>(value);
    }

    [[nodiscard]] bool message_holds(Bytes message) const;
    void read_time(Arguments& arguments);
    void read_message(Arguments& arguments);

    TraceTime from_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::min()};
    TraceTime until_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::max()};
    std::uint32_t transports_ = kAny; ///< a bit each
    std::uint32_t families_ = kAny;   ///< the same, of sources_
    std::vector<Prefix> sources_;
    std::vector<Prefix> destinations_;
    std::vector<std::uint16_t> types_;
    std::vector<Name> names_;      ///< lower case
    std::uint32_t opcodes_ = kAny; ///< a bit each
    std::uint16_t flags_ = 0;
    std::optional<bool> edns_;
    std::optional<bool> dnssec_ok_;
    bool on_time_ = false;
    bool on_message_ = false; ///< some condition needs the message
};

/// Bits by connection, from its first query to its close. Of more than `most` connections the older
/// half is forgotten. Memory: about 30 bytes for each.
class ConnectionChoices {
public:
    explicit ConnectionChoices(size_t most = 1UL << 20U)
        : choices_(std::numeric_limits<Nanoseconds>::max(), most) {}

    /// Adds bits to the choice of the source's connection; none where that is 0.
    void add(const Endpoint& source, std::uint64_t connection, std::uint8_t bits);

    /// The bits, once; nothing where the connection is not known.
    std::optional<std::uint8_t> take(const Endpoint& source, std::uint64_t connection);

private:
    Recent<std::optional<std::uint8_t>> choices_; ///< by source and connection; none: taken
};

/// Whether a selector takes the close of a connection.
enum class Closes : std::uint8_t {
    kNone,     ///< no close
    kBySource, ///< as a query of its source; never where there is a share by query below 100
    kAny,      ///< where any query of the connection was taken
    kAll,      ///< where every query of it was
};

/// Of the queries that pass the filter, `share` percent.
///
/// By query: spread over the trace and exact to one query at every point of it. The k-th query
/// taken is a random one of the k-th stretch of 100 / share queries, so that the share does not
/// beat with a pattern of the trace (a client's A and AAAA queries in turns).
///
/// By source address: by a keyed hash, so that all queries of a source are in or out, in every run
/// with the same seed.
class Selector {
public:
    /// Takes nothing.
    Selector() : closes_(Closes::kNone), share_(0), random_(0) {}

    /// Takes the keys share, by and where.* from `arguments`. `by_source` is the default of by.
    Selector(Arguments& arguments, std::uint64_t seed, Closes closes, bool by_source = false);

    /// Passes only queries of these sources, besides what the filter says.
    void restrict_to(std::vector<Prefix> sources) {
        only_ = std::move(sources);
        takes_all_ = false;
    }

    /// To be asked once for each query, in order, and each close.
    bool takes(const Query& query) {
        if (takes_all_) {
            return closes_ != Closes::kNone || !query.is_close();
        }
        return (!quick_ || !filter_ || filter_->may_match(query)) && chooses(query);
    }

    /// Whether all queries of a connection and its close are taken alike: there is no share by
    /// query and no condition on the message or the time.
    [[nodiscard]] bool same_for_connection() const { return same_for_connection_; }

private:
    bool takes_by_itself(const Query& query) { return passes(query) && in_share(query); }

    bool chooses(const Query& query);
    bool takes_with_connection(const Query& query);
    bool passes(const Query& query);
    bool in_share(const Query& query);
    bool next_in_share();
    void draw_next();

    std::optional<Filter> filter_; ///< none: everything passes
    std::vector<Prefix> only_;     ///< none: every source passes
    Closes closes_;
    bool takes_all_ = false; ///< neither filter nor share
    bool same_for_connection_ = true;
    bool quick_ = false;     ///< a query that the filter does not take leaves nothing behind
    bool remembers_ = false; ///< a close is taken by what was taken of its connection
    ConnectionChoices choices_;
    bool begun_ = false; ///< the filter knows the first query's time
    double share_ = 1;   ///< 0 to 1
    bool by_source_ = false;
    std::uint64_t key_ = 0;
    std::uint64_t limit_ = 0;  ///< by source: hashes below it are taken
    Random random_;            ///< by query
    bool inverted_ = false;    ///< the rarer choice, which stretches are drawn for, is "not taken"
    double stretch_ = 1;       ///< queries to one of the rarer choice
    double next_ = 0;          ///< place of the next of the rarer choice among passed_
    std::uint64_t drawn_ = 0;  ///< of them so far
    std::uint64_t passed_ = 0; ///< the filter
};

} // namespace reprise::rules
