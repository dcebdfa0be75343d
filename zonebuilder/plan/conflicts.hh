#pragma once
// Which groups of addresses may not share a view, and how few views do.

#include "core/base/address.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

// Delegations to servers that do not serve what is delegated to them.

/// One address that a resolver asks about `zone` although it does not serve that.
struct Lame {
    NameKey zone;
    NameKey parent; ///< the zone with the NS record: the parent, or the zone itself
    NameKey server;
    IpAddress address;
    bool built = true; ///< the zone is among those here, at other addresses

    auto operator<=>(const Lame&) const = default;
};

/// Looks at every NS record, of parents and of apexes: resolvers believe both. Addresses outside
/// the map count only where the delegated zone is among `zones`; delegations to zones that nobody
/// has are no fault.
std::vector<Lame> find_lame(const std::vector<Zone>& zones, const ZoneTree& tree,
                            const AddressBook& book, const std::vector<Group>& groups,
                            const std::unordered_map<IpAddress, GroupIndex>& group_of);

/// The server that answers. NSD follows aliases into every zone it has; BIND stays in the first.
enum class Engine { kBind, kNsd };

/// Two groups that no view may hold together; first < second.
struct Edge {
    GroupIndex first = 0;
    GroupIndex second = 0;

    auto operator<=>(const Edge&) const = default;
};

/// All edges of the conflict graph, ascending, each once. conflicts.cc says which these are and
/// why.
std::vector<Edge> find_conflicts(const std::vector<Zone>& zones, const ZoneTree& tree,
                                 const std::vector<Group>& groups, const std::vector<Lame>& lame,
                                 const std::unordered_map<IpAddress, GroupIndex>& group_of,
                                 Engine engine);

using Color = std::uint32_t; ///< from 0

/// A color for each of `nodes` nodes, such that no edge joins two of one color; the same for the
/// same graph on every machine. Every edge's ends are below `nodes`.
std::vector<Color> color_graph(std::size_t nodes, const std::vector<Edge>& edges);

} // namespace reprise::zonebuilder
