#pragma once
#include "zonebuilder/plan/conflicts.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::zonebuilder {

using Color = std::uint32_t; ///< from 0

/// A color for each of `nodes` nodes, such that no edge joins two of one color; the same for the
/// same graph on every machine. Every edge's ends are below `nodes`.
std::vector<Color> color_graph(std::size_t nodes, const std::vector<Edge>& edges);

} // namespace reprise::zonebuilder
