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

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::tree {

class Assignment {
public:
    /// Adds a child, before anything else is asked; there must be one. `weight`: the queriers below
    /// it. The name salts the hash: levels of a tree are independent.
    void add(std::string_view name, double weight);

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

} // namespace reprise::tree
