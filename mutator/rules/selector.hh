#pragma once
// Which queries a rule takes: a filter (`where`) and a share of what passes it.

#include "mutator/batch.hh"
#include "mutator/rules/arguments.hh"

#include <cstdint>
#include <memory>

namespace reprise::mutator {

/// Whether an item passes `where`. All conditions must hold; values of one condition are
/// alternatives. Closes of connections pass only conditions on source, transport and time.
class Filter {
public:
    virtual ~Filter() = default;
    [[nodiscard]] virtual bool matches(const Item& item) const = 0;
};

/// Of the queries that pass the filter, `share` percent: by query evenly spread, so exact to one
/// query at every point of the trace; or by source address, by a keyed hash, so that all queries of
/// a source are in or out, in every run with the same seed.
class Selector {
public:
    /// Takes the keys share, by and where.* from `arguments`.
    Selector(Arguments& arguments, std::uint64_t seed);
    Selector(Selector&&) noexcept;
    Selector& operator=(Selector&&) noexcept;
    ~Selector();

    /// To be asked once for each query, in order.
    bool takes(const Item& item);

    /// Asked so far.
    [[nodiscard]] std::uint64_t seen() const { return seen_; }

    /// Taken so far.
    [[nodiscard]] std::uint64_t matched() const { return matched_; }

private:
    std::unique_ptr<Filter> filter_; ///< null: everything passes
    double share_ = 1;
    bool by_source_ = false;
    std::uint64_t key_ = 0;
    std::uint64_t passed_ = 0; ///< the filter
    std::uint64_t seen_ = 0;
    std::uint64_t matched_ = 0;
};

} // namespace reprise::mutator
