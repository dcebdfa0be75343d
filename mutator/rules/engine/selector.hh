#pragma once
// Which queries a rule takes: a filter (`where`) and a share of what passes it.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/prefix.hh"
#include "core/base/random.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/values.hh"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::mutator {

// The conditions of a rule's `where`.

/// Whether an item passes `where`. All conditions must hold; values of one condition are
/// alternatives, but flags must all be set. Closes of connections pass only where no condition is
/// on the message.
class Filter {
public:
    /// Takes the keys where.*; nothing where there are none.
    static std::unique_ptr<Filter> make(Arguments& arguments);

    /// Before the first matches(): the time of the trace's first query, from which seconds count.
    void begin(Nanoseconds first);

    [[nodiscard]] bool matches(const Item& item) const;

    /// No condition on the message or the time.
    [[nodiscard]] bool same_for_connection() const { return !on_message_ && !on_time_; }

private:
    [[nodiscard]] bool header_holds(Bytes message) const;
    [[nodiscard]] bool question_holds(Bytes message) const;
    [[nodiscard]] bool edns_holds(Bytes message) const;
    void read_time(Arguments& arguments);
    void read_message(Arguments& arguments);

    TraceTime from_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::min()};
    TraceTime until_{.absolute = true, .value = std::numeric_limits<Nanoseconds>::max()};
    std::uint32_t transports_ = 0; ///< a bit each; 0 = any
    std::vector<Prefix> sources_;
    std::vector<Prefix> destinations_;
    std::vector<std::uint16_t> types_;
    std::vector<WireBytes> names_; ///< lower case
    std::uint32_t opcodes_ = 0;    ///< a bit each; 0 = any
    std::uint16_t flags_ = 0;
    std::optional<bool> edns_;
    std::optional<bool> dnssec_ok_;
    bool on_time_ = false;
    bool on_message_ = false; ///< some condition needs the message
};

class Filter;

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
    /// Takes the keys share, by and where.* from `arguments`. `by_source` is the default of by.
    Selector(Arguments& arguments, std::uint64_t seed, bool by_source = false);
    Selector(Selector&&) noexcept;
    Selector& operator=(Selector&&) noexcept;
    ~Selector();

    /// To be asked once for each query, in order. Closes may be asked for too: they are taken where
    /// their source is, are not counted, and are never part of a share by query below 100.
    bool takes(const Item& item);

    /// Whether all queries of a connection and its close are taken alike: there is no share by
    /// query and no condition on the message or the time.
    [[nodiscard]] bool same_for_connection() const;

    /// Queries asked for so far.
    [[nodiscard]] std::uint64_t seen() const { return seen_; }

    /// Taken so far.
    [[nodiscard]] std::uint64_t matched() const { return matched_; }

private:
    bool passes(const Item& item);
    bool in_share(const Item& item);
    bool next_in_share();
    void draw_next();

    std::unique_ptr<Filter> filter_; ///< null: everything passes
    bool begun_ = false;             ///< the filter knows the first query's time
    double share_ = 1;               ///< 0 to 1
    bool by_source_ = false;
    std::uint64_t key_ = 0;
    std::uint64_t limit_ = 0;  ///< by source: hashes below it are taken
    Random random_;            ///< by query
    bool inverted_ = false;    ///< the rarer choice, which stretches are drawn for, is "not taken"
    double stretch_ = 1;       ///< queries to one of the rarer choice
    double next_ = 0;          ///< place of the next of the rarer choice among passed_
    std::uint64_t drawn_ = 0;  ///< of them so far
    std::uint64_t passed_ = 0; ///< the filter
    std::uint64_t seen_ = 0;
    std::uint64_t matched_ = 0;
};

} // namespace reprise::mutator
