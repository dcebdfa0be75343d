#pragma once
// A plan: from zones to groups, instances of the meta-DNS-server, slots and views, and to texts.

#include "core/base/address.hh"
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_folder.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// How a server tells for which OQDA a query is: by the color in its destination address, by its
/// source address (the OQDA itself), or by a destination address for every group.
enum class Form { kColored, kPaper, kSeparate };

/// A meta address for each resolver. Slots, instances and colors are counted from 1 in all
/// outputs.
struct Slot {
    unsigned instance = 0; ///< from 0
    Color color = 0;
    std::vector<GroupIndex> groups;
    std::vector<ZoneIndex> zones; ///< ascending, each once
};

/// Deals groups to instances: equally many zones for each, and groups with common zones together,
/// for an instance loads a zone once. Returns each group's instance, from 0.
std::vector<unsigned> assign_instances(const std::vector<Group>& groups, unsigned instances);

/// The slots by instance and color; paper: one an instance, separate: one a group.
std::vector<Slot> make_slots(const std::vector<Group>& groups, const std::vector<Color>& colors,
                             const std::vector<unsigned>& instances, Form form);

/// The slot (from 0) of each group.
std::vector<std::uint32_t> slot_of_groups(const std::vector<Slot>& slots, std::size_t groups);

/// A resolver under test: the addresses that its queries upstream come from.
struct Resolver {
    std::optional<IpAddress> v4;
    std::optional<IpAddress> v6;
};

/// The meta addresses of a slot and a resolver.
struct MetaAddress {
    std::uint32_t slot = 0;     ///< from 0
    std::uint32_t resolver = 0; ///< from 0
    IpAddress v4;
    IpAddress v6;
};

/// Numbers them from the second address of both prefixes on, slot by slot. Throws Error where a
/// prefix is too small.
std::vector<MetaAddress> meta_addresses(std::size_t slots, std::size_t resolvers, const Prefix& v4,
                                        const Prefix& v6);

struct PlanSettings {
    Engine engine = Engine::kBind;
    Form form = Form::kColored;
    unsigned instances = 1;
    std::vector<Resolver> resolvers;
    Prefix meta4;
    Prefix meta6;
    std::vector<Reserved> reserved; ///< besides the resolvers' addresses and the meta prefixes
    bool root_addresses = true;     ///< add the Internet's root servers to the root's group
};

/// The real addresses of one root server.
struct RootServer {
    NameKey name;
    std::uint32_t ttl = 0;
    std::vector<IpAddress> addresses;
};

/// A zone that the root's anchors lead to.
struct Trusted {
    ZoneIndex zone = 0;
    std::string_view why; ///< why its answers cannot be validated; empty if they can
};

struct Plan {
    std::vector<Group> groups;
    std::vector<Lame> lame;
    std::vector<Unroutable> unroutable;
    std::vector<Unserved> unserved;
    std::vector<Edge> edges;
    Color colors = 0;
    std::vector<Slot> slots;
    std::vector<std::uint32_t> slot_of_group;
    std::vector<MetaAddress> meta;
    std::vector<RootServer> root_servers;
    std::vector<TrustAnchor> anchors; ///< of the root
    bool root_keys_unsigned = false;  ///< it has keys, but not one of them can be an anchor
    std::vector<Trusted> trusted;     ///< zones whose answers a validating resolver checks
    std::size_t root_addresses = 0;   ///< of the Internet's root servers that were added
    std::map<std::string, double> seconds;
};

/// Plans zones that are sorted by name and file and free of contradictions. Throws Error where
/// nothing can be served or the settings do not fit.
/// `asked` are answered as little as they were.
Plan make_plan(const std::vector<Zone>& zones, const PlanSettings& settings,
               const std::vector<AskedInVain>& asked = {});

// A plan as texts of files; nothing here touches a file.

/// map.tsv: what the data paths need.
std::string map_text(const Plan& plan, const PlanSettings& settings);

/// The emulated root's servers and their addresses; without a root zone only a comment.
std::string root_hints(const Plan& plan);

/// The root's key-signing keys as zone text; empty where the root is unsigned.
std::string root_key(const Plan& plan);

/// plan.json, schema 1.
std::string plan_json(const Plan& plan, const PlanSettings& settings,
                      const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

/// What a person wants to know, a few lines.
std::string summary_text(const Plan& plan, const PlanSettings& settings,
                         const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

} // namespace reprise::zonebuilder
