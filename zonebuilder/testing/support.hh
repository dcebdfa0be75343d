#pragma once
// Small worlds for tests.

#include "core/base/address.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder::testing {

inline IpAddress ip(const std::string& text) {
    const auto address = IpAddress::parse(text);
    return address ? *address : throw std::invalid_argument(text);
}

inline Prefix prefix(const std::string& text) {
    const auto found = Prefix::parse(text);
    return found ? *found : throw std::invalid_argument(text);
}

inline NameKey name(const std::string& text) {
    const auto parsed = NameKey::parse(text);
    return parsed ? *parsed : throw std::invalid_argument(text);
}

/// A zone with a SOA, `records`, and stated addresses; an NS where the records have none for the
/// apex.
inline Zone zone(const std::string& apex, const std::vector<std::string>& addresses,
                 const std::string& records = "", const std::string& file = "") {
    const std::string text = "@ 60 SOA m. h. 1 2 3 4 5\n@ 60 NS nowhere.invalid.\n" + records;
    std::optional<NameKey> wanted = name(apex);
    Zone zone = read_zone(text, file.empty() ? apex + "zone" : file, wanted);
    zone.stated.emplace();
    for (const std::string& address : addresses) {
        zone.stated->push_back(ip(address));
    }
    return zone;
}

/// Everything up to the conflict graph. It must not be moved: the parts point at each other.
struct World {
    explicit World(std::vector<Zone> unsorted, Engine engine = Engine::kBind)
        : zones(sorted(std::move(unsorted))), tree(zones), book(zones),
          serving(serve(zones, book, {})), groups(make_groups(serving)),
          group_of(group_of_address(groups)), lame(find_lame(zones, tree, book, groups, group_of)),
          edges(find_conflicts(zones, tree, groups, lame, group_of, engine)) {}

    World(const World&) = delete;
    World& operator=(const World&) = delete;
    World(World&&) = delete;
    World& operator=(World&&) = delete;
    ~World() = default;

    static std::vector<Zone> sorted(std::vector<Zone> zones) {
        std::ranges::sort(zones, [](const Zone& a, const Zone& b) {
            return std::tie(a.name, a.file) < std::tie(b.name, b.file);
        });
        return zones;
    }

    /// Whether the groups of two addresses must not share a view.
    [[nodiscard]] bool apart(const std::string& a, const std::string& b) const {
        const GroupIndex first = group_of.at(ip(a));
        const GroupIndex second = group_of.at(ip(b));
        return std::ranges::binary_search(
            edges, Edge{.first = std::min(first, second), .second = std::max(first, second)});
    }

    std::vector<Zone> zones;
    ZoneTree tree;
    AddressBook book;
    Serving serving;
    std::vector<Group> groups;
    std::unordered_map<IpAddress, GroupIndex> group_of;
    std::vector<Lame> lame;
    std::vector<Edge> edges;
};

} // namespace reprise::zonebuilder::testing
