#pragma once
// The whole plan as a value: zones in, everything that is written out of it.

#include "core/base/prefix.hh"
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/plan/slots.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_folder.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

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

} // namespace reprise::zonebuilder
