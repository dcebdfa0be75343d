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
//       aliases (CNAME, DNAME), which some resolvers follow; address_book.cc finds all of them.
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
#include "zonebuilder/plan/conflicts.hh"

#include "core/base/address.hh"
#include "zonebuilder/plan/lame.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_tree.hh"

#include <algorithm>
#include <cstddef>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Collects edges; the order in which conditions are asked does not matter.
class Finder {
public:
    Finder(const std::vector<Zone>& zones, const ZoneTree& tree, const std::vector<Group>& groups)
        : zones_(zones), tree_(tree), groups_(groups),
          groups_of_(groups_of_zones(groups, zones.size())) {}

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
        if (serves_one_of(group, enclosing)) {
            return;
        }
        const ZoneRange nearest = enclosing.empty() ? ZoneRange{} : enclosing.back();
        if (lame_done_.emplace(group, nearest.first).second) {
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

    [[nodiscard]] bool serves_one_of(GroupIndex group, const std::vector<ZoneRange>& ranges) const {
        return std::ranges::any_of(
            ranges, [&](ZoneRange range) { return groups_[group].serves_any(range); });
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
    std::vector<std::vector<GroupIndex>> groups_of_;
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

} // namespace reprise::zonebuilder
