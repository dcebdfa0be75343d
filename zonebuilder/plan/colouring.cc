// Few colours for the conflict graph.
//
// The problem. A colour becomes a view (BIND) or a server process (NSD), and both cost memory and
// time: so groups of addresses are to share as few colours as can be, and no edge may join two of
// one colour. The fewest is NP-hard to find.
//
// The idea. DSATUR (Brelaz 1979): colour next the node whose neighbours already show the most
// different colours, among equals the one with the most neighbours, and give it the lowest colour
// free. That is exact for bipartite graphs and close elsewhere. It fits here: a conflict graph of
// the DNS is nearly layered (root, TLDs, names below them; edges run between layers), so the worst
// it met needed one colour more than its largest clique.
//
// Why it is sound. conflicts.cc makes every condition one about two groups, so any proper colouring
// will do; a poor one costs memory, never a wrong answer.
//
// The cost. A heap of nodes, in which a node moves only when a neighbour shows it a colour for the
// first time: (nodes + edges) * log(nodes), and one bit per node and colour. Ties go by the node's
// number, so plans repeat.
#include "zonebuilder/plan/colouring.hh"

#include "zonebuilder/plan/conflicts.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr Colour kNone = UINT32_MAX;

struct Candidate {
    std::size_t shown = 0; ///< different colours among the neighbours
    std::size_t degree = 0;
    std::uint32_t node = 0;

    /// The most constrained comes first.
    bool operator<(const Candidate& other) const {
        if (shown != other.shown) {
            return shown > other.shown;
        }
        return degree != other.degree ? degree > other.degree : node < other.node;
    }
};

/// The graph while it is being coloured.
class Painter {
public:
    Painter(std::size_t nodes, const std::vector<Edge>& edges)
        : neighbours_(nodes), seen_(nodes), shown_(nodes), colours_(nodes, kNone) {
        for (const Edge& edge : edges) {
            neighbours_[edge.first].push_back(edge.second);
            neighbours_[edge.second].push_back(edge.first);
        }
        for (std::uint32_t node = 0; node < nodes; ++node) {
            waiting_.insert(candidate(node));
        }
    }

    std::vector<Colour> run() {
        while (!waiting_.empty()) {
            const std::uint32_t node = waiting_.begin()->node;
            waiting_.erase(waiting_.begin());
            colours_[node] = lowest_free(node);
            for (const std::uint32_t neighbour : neighbours_[node]) {
                show(neighbour, colours_[node]);
            }
        }
        return colours_;
    }

private:
    [[nodiscard]] Candidate candidate(std::uint32_t node) const {
        return {.shown = shown_[node], .degree = neighbours_[node].size(), .node = node};
    }

    [[nodiscard]] Colour lowest_free(std::uint32_t node) const {
        const auto& seen = seen_[node];
        return static_cast<Colour>(std::ranges::find(seen, false) - seen.begin());
    }

    /// Tells a node that a neighbour has got a colour; only the first time changes its place in the
    /// queue.
    void show(std::uint32_t node, Colour colour) {
        auto& seen = seen_[node];
        if (colours_[node] != kNone) {
            return;
        }
        if (seen.size() <= colour) {
            seen.resize(colour + 1UL);
        }
        if (!seen[colour]) {
            waiting_.erase(candidate(node));
            seen[colour] = true;
            ++shown_[node];
            waiting_.insert(candidate(node));
        }
    }

    std::vector<std::vector<std::uint32_t>> neighbours_;
    std::vector<std::vector<bool>> seen_; ///< colours among the neighbours
    std::vector<std::size_t> shown_;      ///< how many of those
    std::vector<Colour> colours_;
    std::set<Candidate> waiting_;
};

} // namespace

std::vector<Colour> colour_graph(std::size_t nodes, const std::vector<Edge>& edges) {
    return Painter(nodes, edges).run();
}

} // namespace reprise::zonebuilder
