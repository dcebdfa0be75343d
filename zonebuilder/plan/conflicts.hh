#pragma once
#include "zonebuilder/plan/lame.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_tree.hh"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

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
