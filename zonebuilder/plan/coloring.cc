// Few colors for the conflict graph.
//
// The problem. A color becomes a view (BIND) or a server process (NSD), and both cost memory and
// time: so groups of addresses are to share as few colors as can be, and no edge may join two of
// one color. The fewest is NP-hard to find.
//
// The idea. DSATUR (Brelaz 1979): color next the node whose neighbors already show the most
// different colors, among equals the one with the most neighbors, and give it the lowest color
// free. That is exact for bipartite graphs and close elsewhere. It fits here: a conflict graph of
// the DNS is nearly layered (root, TLDs, names below them; edges run between layers), so the worst
// it met needed one color more than its largest clique.
//
// Why it is sound. conflicts.cc makes every condition one about two groups, so any proper coloring
// will do; a poor one costs memory, never a wrong answer.
//
// The cost. A heap of nodes, in which a node moves only when a neighbor shows it a color for the
// first time: (nodes + edges) * log(nodes), and one bit per node and color. Ties go by the node's
// number, so plans repeat.

#include "zonebuilder/plan/conflicts.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr Color kNone = UINT32_MAX;

struct Candidate {
    std::size_t shown = 0; ///< different colors among the neighbors
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

/// The graph while it is being colored.
class Painter {
public:
    Painter(std::size_t nodes, const std::vector<Edge>& edges)
        : neighbors_(nodes), seen_(nodes), shown_(nodes), colors_(nodes, kNone) {
        for (const Edge& edge : edges) {
            neighbors_[edge.first].push_back(edge.second);
            neighbors_[edge.second].push_back(edge.first);
        }
        for (std::uint32_t node = 0; node < nodes; ++node) {
            waiting_.insert(candidate(node));
        }
    }

    std::vector<Color> run() {
        while (!waiting_.empty()) {
            const std::uint32_t node = waiting_.begin()->node;
            waiting_.erase(waiting_.begin());
            colors_[node] = lowest_free(node);
            for (const std::uint32_t neighbor : neighbors_[node]) {
                show(neighbor, colors_[node]);
            }
        }
        return colors_;
    }

private:
    [[nodiscard]] Candidate candidate(std::uint32_t node) const {
        return {.shown = shown_[node], .degree = neighbors_[node].size(), .node = node};
    }

    [[nodiscard]] Color lowest_free(std::uint32_t node) const {
        const auto& seen = seen_[node];
        return static_cast<Color>(std::ranges::find(seen, false) - seen.begin());
    }

    /// Tells a node that a neighbor has got a color; only the first time changes its place in the
    /// queue.
    void show(std::uint32_t node, Color color) {
        auto& seen = seen_[node];
        if (colors_[node] != kNone) {
            return;
        }
        if (seen.size() <= color) {
            seen.resize(color + 1UL);
        }
        if (!seen[color]) {
            waiting_.erase(candidate(node));
            seen[color] = true;
            ++shown_[node];
            waiting_.insert(candidate(node));
        }
    }

    std::vector<std::vector<std::uint32_t>> neighbors_;
    std::vector<std::vector<bool>> seen_; ///< colors among the neighbors
    std::vector<std::size_t> shown_;      ///< how many of those
    std::vector<Color> colors_;
    std::set<Candidate> waiting_;
};

} // namespace

std::vector<Color> color_graph(std::size_t nodes, const std::vector<Edge>& edges) {
    return Painter(nodes, edges).run();
}

} // namespace reprise::zonebuilder
