// Which groups may not share a view.
//
// The problem. A group's addresses serve the zones S. Give several groups one view, with the union
// U of their zones, and each of their addresses answers out of U instead of S. Nobody may see the
// difference: for every query that a resolver sends to an address of the group, the answer out of U
// must be that out of S, byte for byte.
//
// The idea. A server picks one zone for a query, the deepest that encloses the name (for DS at a
// zone's apex: the deepest strictly above, if there is one), and answers out of that zone alone.
// BIND does so without recursion: it neither follows aliases nor looks for additional data in
// another zone. So the answers differ only if another zone is picked, and that takes a zone y of U
// that is not in S:
//
//   (a) y lies below a zone of S: it takes names of that zone.
//       y lies above a zone of S: it takes DS queries at that zone's apex, and in NSD, which has
//       one tree of names for all zones, its glue makes names in that zone exist.
//   (b) y is another content of a zone of S.
//   (c) Otherwise y takes only names that S has no zone for, where S refuses. A resolver asks for
//       such a name only where it was sent to this address: an NS record (the parent's or the
//       apex's own) names a server for d whose address is in the group, and S does not have d. The
//       name may have that address itself, as glue anywhere, by a wildcard, or at the end of
//       aliases (CNAME, DNAME), which some resolvers follow; AddressBook finds all of them.
//       All its queries are for names at or below d. So y matters if it equals d, encloses d, or
//       lies below d. Where a zone of S encloses d, (a) has said all.
//   (d) NSD only: it follows CNAME and DNAME from zone to zone (but takes additional data from one
//       zone, like BIND). So y matters if it encloses or equals the target of an alias of S; or,
//       for a DNAME, which leads to any name below its target, lies below it.
//
// Why pairs suffice. Every condition is about one group and one zone y of another one. Should U
// answer wrongly for S, then because of one such y, and the group that brought y into the view has
// an edge to S. So a view without an edge between two of its groups answers rightly for all of
// them, however many they are: a coloring of the graph is enough.
//
// The cost. Pairs of groups are never tried. Edges come from zones that are related by name: each
// zone's ancestors (a, d), its other contents (b), each lame delegation's neighborhood (c): for Z
// zones with at most A ancestors that is Z * A times the groups of both zones. 10,000 zones: some
// ms; 100,000: some 100 ms.
#include "core/base/address.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

// An address is lame for a zone d when an NS record sends resolvers there for d and it does not
// serve d.
//
// Every NS record counts, because resolvers differ in whom they believe: the parent's (a
// referral's) or the zone's own (which replaces it in most caches). And every address of the
// server's name counts, for resolvers use glue until they know better, and some follow a name that
// is an alias. To see too many costs an
// edge in the graph; to miss one would let a lame server answer. Delegations to zones that nobody
// has here are most of what a TLD holds: they matter only if they lead to an address in the map.

std::vector<Lame> find_lame(const std::vector<Zone>& zones, const ZoneTree& tree,
                            const AddressBook& book, const std::vector<Group>& groups,
                            const std::unordered_map<IpAddress, GroupIndex>& group_of) {
    std::vector<Lame> found;
    const auto look_at = [&](const NameKey& zone, const NameKey& parent,
                             const std::vector<NameKey>& servers) {
        const ZoneRange contents = tree.at(zone.key());
        for (const NameKey& server : servers) {
            for (const IpAddress& address : book.any(server)) {
                const auto group = group_of.find(address);
                if (group == group_of.end() ? !contents.empty()
                                            : !groups[group->second].serves_any(contents)) {
                    found.push_back({zone, parent, server, address, !contents.empty()});
                }
            }
        }
    };
    for (const Zone& zone : zones) {
        look_at(zone.name, zone.name, zone.servers);
        for (const Delegation& delegation : zone.delegations) {
            look_at(delegation.name, zone.name, delegation.servers);
        }
    }
    sort_unique(found); // apex and parent often say the same
    return found;
}

namespace {

/// Collects edges; the order in which conditions are asked does not matter.
class Finder {
public:
    Finder(const std::vector<Zone>& zones, const ZoneTree& tree, const std::vector<Group>& groups)
        : zones_(zones), tree_(tree), groups_(groups), groups_of_(zones.size()) {
        for (GroupIndex i = 0; i < groups.size(); ++i) {
            for (const ZoneIndex zone : groups[i].zones) {
                groups_of_[zone].push_back(i);
            }
        }
    }

    /// (a) and (b): every zone with the other zones that enclose it or have its name.
    void related_zones() {
        for (ZoneIndex zone = 0; zone < zones_.size(); ++zone) {
            for (const ZoneRange above : tree_.enclosing(zones_[zone].name)) {
                each(above, [&](ZoneIndex other) { relate(zone, other); });
            }
        }
    }

    /// (c)
    void lame_delegation(GroupIndex group, const NameKey& delegated) {
        const std::vector<ZoneRange> enclosing = tree_.enclosing(delegated);
        if (std::ranges::any_of(enclosing,
                                [&](auto one) { return groups_[group].serves_any(one); })) {
            return;
        }
        if (!enclosing.empty() && lame_done_.emplace(group, enclosing.back().first).second) {
            for (const ZoneRange range : enclosing) {
                each(range, [&](ZoneIndex zone) { keep_apart(group, zone); });
            }
        }
        each(tree_.below(delegated), [&](ZoneIndex zone) { keep_apart(group, zone); });
    }

    /// (d)
    void alias(ZoneIndex zone, const Alias& alias) {
        const auto apart = [&](ZoneIndex other) {
            for (const GroupIndex group : groups_of_[zone]) {
                keep_apart(group, other);
            }
        };
        for (const ZoneRange range : tree_.enclosing(alias.target)) {
            each(range, apart);
        }
        if (alias.subtree) {
            each(tree_.below(alias.target), apart);
        }
    }

    std::vector<Edge> finish() {
        sort_unique(edges_);
        return std::move(edges_);
    }

private:
    /// For every zone of the range.
    template <typename Action> static void each(ZoneRange range, Action&& action) {
        for (ZoneIndex zone = range.first; zone < range.end; ++zone) {
            action(zone);
        }
    }

    /// Groups with one of the two zones and groups with the other, unless both have both.
    void relate(ZoneIndex zone, ZoneIndex other) {
        if (zone == other) {
            return;
        }
        for (const GroupIndex group : groups_of_[zone]) {
            if (!groups_[group].serves(other)) {
                keep_apart(group, other);
                continue;
            }
            for (const GroupIndex single : groups_of_[other]) {
                if (!groups_[single].serves(zone)) {
                    add(group, single);
                }
            }
        }
    }

    /// No group that has the zone shares a view with this one, which does not.
    void keep_apart(GroupIndex group, ZoneIndex zone) {
        if (groups_[group].serves(zone)) {
            return;
        }
        for (const GroupIndex other : groups_of_[zone]) {
            add(group, other);
        }
    }

    /// Most edges are found many times over (each zone of a group finds the same ones), so doubles
    /// go whenever the list has grown to twice its size without them.
    void add(GroupIndex a, GroupIndex b) {
        edges_.push_back({std::min(a, b), std::max(a, b)});
        if (edges_.size() >= room_) {
            sort_unique(edges_);
            room_ = std::max(room_, edges_.size() * 2);
        }
    }

    const std::vector<Zone>& zones_;
    const ZoneTree& tree_;
    const std::vector<Group>& groups_;
    std::vector<std::vector<GroupIndex>> groups_of_; ///< of each zone, ascending
    std::vector<Edge> edges_;
    std::size_t room_ = 1 << 20;
    std::set<std::pair<GroupIndex, ZoneIndex>> lame_done_; ///< (group, nearest enclosing zone)
};

} // namespace

std::vector<Edge> find_conflicts(const std::vector<Zone>& zones, const ZoneTree& tree,
                                 const std::vector<Group>& groups, const std::vector<Lame>& lame,
                                 const std::unordered_map<IpAddress, GroupIndex>& group_of,
                                 Engine engine) {
    Finder finder(zones, tree, groups);
    finder.related_zones();
    for (const Lame& one : lame) {
        if (const auto group = group_of.find(one.address); group != group_of.end()) {
            finder.lame_delegation(group->second, one.zone);
        }
    }
    if (engine == Engine::kNsd) {
        for (ZoneIndex zone = 0; zone < zones.size(); ++zone) {
            for (const Alias& alias : zones[zone].aliases) {
                if (!alias.target.within(zones[zone].name)) { // otherwise (a) has said all
                    finder.alias(zone, alias);
                }
            }
        }
    }
    return finder.finish();
}

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

namespace {

struct Node {
    std::vector<std::uint32_t> neighbors;
    std::vector<bool> seen; ///< colors among them
    std::size_t shown = 0;  ///< how many of those
};

} // namespace

std::vector<Color> color_graph(std::size_t nodes, const std::vector<Edge>& edges) {
    constexpr Color kNone = UINT32_MAX;
    std::vector<Node> graph(nodes);
    for (const Edge& edge : edges) {
        graph[edge.first].neighbors.push_back(edge.second);
        graph[edge.second].neighbors.push_back(edge.first);
    }
    // The most constrained comes first: most colors shown, most neighbors, lowest number.
    using Place = std::tuple<std::size_t, std::size_t, std::uint32_t>;
    const auto place_of = [&](std::uint32_t node) {
        return Place(SIZE_MAX - graph[node].shown, SIZE_MAX - graph[node].neighbors.size(), node);
    };
    std::set<Place> waiting;
    for (std::uint32_t node = 0; node < nodes; ++node) {
        waiting.insert(place_of(node));
    }
    std::vector<Color> colors(nodes, kNone);
    while (!waiting.empty()) {
        const auto number = std::get<std::uint32_t>(*waiting.begin());
        waiting.erase(waiting.begin());
        const Node& node = graph[number];
        const auto color = static_cast<Color>(std::ranges::find(node.seen, false) -
                                              node.seen.begin()); // the lowest one free
        colors[number] = color;
        for (const std::uint32_t neighbor : node.neighbors) {
            Node& other = graph[neighbor];
            if (other.seen.size() <= color) {
                other.seen.resize(color + 1UL);
            }
            if (colors[neighbor] == kNone && !other.seen[color]) {
                waiting.erase(place_of(neighbor));
                other.seen[color] = true;
                ++other.shown;
                waiting.insert(place_of(neighbor));
            }
        }
    }
    return colors;
}

} // namespace reprise::zonebuilder
