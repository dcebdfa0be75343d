#pragma once
// Which child gets a source's queries. Sticky: a source keeps its child for the whole run, so its
// queries share one socket or connection, in order.
//
// Most sources go by weighted rendezvous hashing (Thaler and Ravishankar 1998; weights as in
// Schindelhauer and Schomaker 2005): no table, no state. But a few sources dominate real traces and
// a hash can put them together; so the heavy ones of the first window are placed by hand, largest
// first on the least loaded child, before anything is sent. The table is bounded and the result
// depends on the trace and the children's names only.

#include "core/base/address.hh"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::tree {

struct Weighted {
    std::string name;  ///< salts the hash: levels of a tree are independent
    double weight = 1; ///< queriers below
};

class Assignment {
public:
    /// At least one child, weights above zero.
    explicit Assignment(const std::vector<Weighted>& children);

    /// Index of the child for a source.
    [[nodiscard]] size_t child_of(const IpAddress& source) const;

    /// Places the heavy sources among `queries_by_source`, the counts of the first window. Call
    /// once, before child_of().
    void place_heavy(const std::unordered_map<IpAddress, std::uint64_t>& queries_by_source);

private:
    struct Child {
        std::uint64_t seed = 0;
        double weight = 1;
    };

    [[nodiscard]] size_t by_hash(const IpAddress& source) const;

    std::vector<Child> children_;
    std::unordered_map<IpAddress, std::uint32_t> heavy_;
};

/// Largest share of a child over its fair share: 1 is perfect. 0 where nothing was assigned.
double imbalance(const std::vector<std::uint64_t>& assigned, const std::vector<double>& weights);

} // namespace reprise::tree
