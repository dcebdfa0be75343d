#include "zonebuilder/plan/plan.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace reprise::zonebuilder {
namespace {

Color count(const std::vector<Color>& colors) {
    return colors.empty() ? 0 : std::ranges::max(colors) + 1;
}

bool proper(const std::vector<Color>& colors, const std::vector<Edge>& edges) {
    return std::ranges::none_of(
        edges, [&](const Edge& edge) { return colors[edge.first] == colors[edge.second]; });
}

std::vector<Edge> random_edges(std::mt19937& random, GroupIndex nodes, double density) {
    std::vector<Edge> edges;
    std::bernoulli_distribution there(density);
    for (GroupIndex i = 0; i < nodes; ++i) {
        for (GroupIndex j = i + 1; j < nodes; ++j) {
            if (there(random)) {
                edges.push_back({i, j});
            }
        }
    }
    return edges;
}

TEST(Coloring, EmptyAndUnrelated) {
    EXPECT_TRUE(color_graph(0, {}).empty());
    EXPECT_EQ(color_graph(3, {}), (std::vector<Color>{0, 0, 0}));
}

TEST(Coloring, CliquesNeedAColorEach) {
    EXPECT_EQ(count(color_graph(4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}})), 4U);
}

TEST(Coloring, BipartiteGraphsNeedTwo) {
    std::mt19937 random(1);
    for (int round = 0; round < 50; ++round) {
        std::vector<Edge> edges;
        for (const Edge& edge : random_edges(random, 40, 0.1)) {
            if (edge.first % 2 != edge.second % 2) {
                edges.push_back(edge);
            }
        }
        const auto colors = color_graph(40, edges);
        EXPECT_LE(count(colors), 2U);
        EXPECT_TRUE(proper(colors, edges));
    }
}

TEST(Coloring, RandomGraphsAreProperAndRepeat) {
    std::mt19937 random(2);
    for (int round = 0; round < 100; ++round) {
        const auto nodes = static_cast<GroupIndex>(1 + random() % 60);
        const auto edges = random_edges(random, nodes, static_cast<double>(random() % 100) / 100);
        const auto colors = color_graph(nodes, edges);
        EXPECT_TRUE(proper(colors, edges));
        EXPECT_EQ(colors, color_graph(nodes, edges));
        auto shuffled = edges;
        std::ranges::shuffle(shuffled, random);
        EXPECT_EQ(colors, color_graph(nodes, shuffled)) << "whatever the edges' order";
    }
}

TEST(Coloring, LayersOfTheDnsNeedOneEach) {
    // Root 0, TLDs 1-9, names 10-999, each below one TLD.
    std::vector<Edge> edges;
    for (GroupIndex tld = 1; tld < 10; ++tld) {
        edges.push_back({0, tld});
    }
    for (GroupIndex leaf = 10; leaf < 1000; ++leaf) {
        edges.push_back({0, leaf});
        edges.push_back({1 + leaf % 9, leaf});
    }
    EXPECT_EQ(count(color_graph(1000, edges)), 3U);
}

} // namespace
} // namespace reprise::zonebuilder
