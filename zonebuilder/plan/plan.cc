// The steps of planning, each a function on values:
//
//   zones -> who serves them -> groups of addresses with the same zones -> lame delegations ->
//   conflicts between groups, colors (conflicts.cc) -> instances and slots -> views
//
// Every step sorts what it hands on, so the same zones give the same plan on every machine.
#include "zonebuilder/plan/plan.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Everything that must not be an OQDA.
std::vector<Reserved> all_reserved(const PlanSettings& settings) {
    std::vector<Reserved> reserved = settings.reserved;
    for (const Resolver& resolver : settings.resolvers) {
        for (const auto& address : {resolver.v4, resolver.v6}) {
            if (address) {
                const auto bits = static_cast<unsigned>(address->size()) * 8;
                reserved.push_back({{*address, bits}, "a resolver's own address"});
            }
        }
    }
    reserved.push_back({settings.meta4, "a meta address"});
    reserved.push_back({settings.meta6, "a meta address"});
    return reserved;
}

std::vector<IpAddress> addresses_serving(const std::vector<Group>& groups, ZoneRange zones) {
    std::vector<IpAddress> addresses;
    for (const Group& group : groups) {
        if (group.serves_any(zones)) {
            addresses.insert(addresses.end(), group.addresses.begin(), group.addresses.end());
        }
    }
    std::ranges::sort(addresses);
    return addresses;
}

/// Where no name of a root server has an address that is served, the first one gets all that serve
/// the root: a resolver only needs somewhere to begin.
std::vector<RootServer> root_servers(const std::vector<Zone>& zones, ZoneRange roots,
                                     const AddressBook& book, const std::vector<Group>& groups,
                                     const std::unordered_map<IpAddress, GroupIndex>& mapped) {
    std::map<NameKey, RootServer> servers;
    bool reachable = false;
    for (ZoneIndex root = roots.first; root < roots.end; ++root) {
        for (const NameKey& name : zones[root].servers) {
            auto& server =
                servers.try_emplace(name, RootServer{name, zones[root].ns_ttl, {}}).first->second;
            server.addresses = book.real(name);
            std::erase_if(server.addresses,
                          [&](const IpAddress& address) { return !mapped.contains(address); });
            reachable = reachable || !server.addresses.empty();
        }
    }
    if (!reachable && !servers.empty()) {
        servers.begin()->second.addresses = addresses_serving(groups, roots);
    }
    const auto sorted = std::views::values(servers);
    return {sorted.begin(), sorted.end()};
}

/// Of the DS records that a zone has for another.
std::span<const KeyId> ds_of(const Zone& parent, const NameKey& child) {
    const auto found = std::ranges::lower_bound(parent.delegations, child, {}, &Delegation::name);
    const bool is = found != parent.delegations.end() && found->name == child;
    return is ? std::span<const KeyId>(found->ds) : std::span<const KeyId>{};
}

/// Why a resolver cannot validate the answers of a zone's server; the root's keys are trusted as
/// they are.
std::string_view why_unproven(const Zone& zone, std::span<const KeyId> ds, Engine engine) {
    const bool known = zone.name.is_root() || std::ranges::any_of(ds, [&](const KeyId& one) {
                           return std::ranges::find(zone.keys, one) != zone.keys.end();
                       });
    if (!zone.signatures) {
        return "it has no signatures";
    }
    if (!known) {
        return "it has no DNSKEY record that matches its DS records";
    }
    if (!zone.signs_keys) {
        return "its DNSKEY records have no signature";
    }
    const bool withheld = engine == Engine::kBind && !zone.denies;
    return withheld ? "BIND returns no signatures without NSEC or NSEC3PARAM at the zone's own name"
                    : "";
}

/// From the root's trust anchor down, by DS records. Zones come behind those that enclose them.
std::vector<Trusted> trusted_zones(const std::vector<Zone>& zones, const ZoneTree& tree,
                                   Engine engine) {
    std::vector<bool> trusted(zones.size());
    std::vector<Trusted> list;
    for (ZoneIndex i = 0; i < zones.size(); ++i) {
        const NameKey& name = zones[i].name;
        const std::vector<ZoneRange> above = tree.enclosing(name);
        const ZoneRange parents = name.is_root() ? ZoneRange{} : above[above.size() - 2];
        trusted[i] = name.is_root() && !zones[i].anchors.empty();
        std::span<const KeyId> ds;
        for (ZoneIndex parent = parents.first; parent < parents.end && ds.empty(); ++parent) {
            ds = trusted[parent] ? ds_of(zones[parent], name) : ds;
        }
        trusted[i] = trusted[i] || !ds.empty();
        if (trusted[i]) {
            list.push_back({.zone = i, .why = why_unproven(zones[i], ds, engine)});
        }
    }
    return list;
}

void check_settings(const PlanSettings& settings, const Plan& plan) {
    if (plan.groups.empty()) {
        throw Error(fmt::format(
            "no zone has a name server with an address that can be used ({} unroutable, {} zones "
            "unserved); give \"addresses\" in zones.json or glue in the zones",
            plan.unroutable.size(), plan.unserved.size()));
    }
    if (settings.instances > plan.groups.size()) {
        throw UsageError(fmt::format("--instances {}: there are only {} groups of addresses; give "
                                     "at most that many",
                                     settings.instances, plan.groups.size()));
    }
}

/// Hints and trust anchor come first: they name the emulated root's own servers, while the
/// Internet's are only in the map, for resolvers with hints of their own.
void plan_root(Plan& plan, const std::vector<Zone>& zones, const ZoneTree& tree,
               const AddressBook& book, Engine engine) {
    const ZoneRange roots = tree.at(NameKey{}.key());
    if (roots.empty()) {
        return;
    }
    const auto mapped = group_of_address(plan.groups);
    plan.root_servers = root_servers(zones, roots, book, plan.groups, mapped);
    plan.anchors = zones[roots.first].anchors;
    plan.root_keys_unsigned = zones[roots.first].keys_unsigned;
    plan.trusted = trusted_zones(zones, tree, engine);
}

} // namespace

Plan make_plan(const std::vector<Zone>& zones, const PlanSettings& settings,
               const std::vector<AskedInVain>& asked) {
    Plan plan;
    const auto measure = [&](const std::string& name, const auto& step) {
        const Nanoseconds before = SteadyClock::now();
        step();
        plan.seconds[name] =
            static_cast<double>(SteadyClock::now() - before) / static_cast<double>(kSecond);
    };
    const std::vector<Reserved> reserved = all_reserved(settings);
    const ZoneTree tree(zones);
    const AddressBook book(zones);
    measure("serve", [&] {
        Serving serving = serve(zones, book, reserved);
        plan.groups = make_groups(serving);
        plan.unroutable = std::move(serving.unroutable);
        plan.unserved = std::move(serving.unserved);
    });
    check_settings(settings, plan);
    plan_root(plan, zones, tree, book, settings.engine);
    if (settings.root_addresses) {
        plan.root_addresses = add_root_addresses(plan.groups, tree, reserved);
    }
    const auto group_of = group_of_address(plan.groups);
    measure("lame", [&] { plan.lame = find_lame(zones, tree, book, plan.groups, group_of); });
    measure("conflicts", [&] {
        std::vector<Lame> lame = plan.lame;
        for (const AskedInVain& one : asked) { // as if by a lame delegation
            for (const IpAddress& address : one.addresses) {
                lame.push_back({one.name, one.name, NameKey{}, address, true});
            }
        }
        plan.edges = find_conflicts(zones, tree, plan.groups, lame, group_of, settings.engine);
    });
    std::vector<Color> colors;
    measure("color", [&] { colors = color_graph(plan.groups.size(), plan.edges); });
    measure("slots", [&] {
        const auto instances = assign_instances(plan.groups, settings.instances);
        plan.colors = std::ranges::max(colors) + 1;
        plan.slots = make_slots(plan.groups, colors, instances, settings.form);
        plan.meta = meta_addresses(plan.slots.size(), settings.resolvers.size(), settings.meta4,
                                   settings.meta6);
    });
    return plan;
}

// From colors to what servers and data paths are told.
//
//   colored:  a slot for each instance and color. The view is told by the destination, which is the
//             slot's meta address; the source stays the OQDA, so answers find back.
//   paper:    one slot an instance, all queries to one address; the view is told by the source, the
//             OQDA.
//   separate: a slot for each group. Nothing is shared, so nothing can be wrong: the truth that
//             tests compare with.
//
// A meta address belongs to a slot and a resolver. The answer goes from it to the OQDA, and the
// resolver that gets it is known by the meta address alone: no data path keeps state.

namespace {

/// An instance with what was assigned to it so far.
struct Instance {
    std::size_t zones = 0;
    std::size_t groups = 0;
    std::vector<bool> loaded; ///< zones
};

/// Large groups first: the small ones then fill the gaps.
std::vector<GroupIndex> by_size(const std::vector<Group>& groups) {
    std::vector<GroupIndex> order(groups.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, [&](GroupIndex a, GroupIndex b) {
        return std::pair(groups[b].zones.size(), a) < std::pair(groups[a].zones.size(), b);
    });
    return order;
}

IpAddress meta_address(const Prefix& prefix, std::size_t n, std::size_t needed,
                       std::string_view option) {
    const auto address = nth_address(prefix, n);
    if (!address) {
        throw Error(fmt::format("{} {} is too small: {} addresses are needed (slots times "
                                "resolvers); give a wider prefix",
                                option, prefix.text(), needed));
    }
    return *address;
}

} // namespace

std::vector<unsigned> assign_instances(const std::vector<Group>& groups, unsigned count) {
    std::size_t zones = 0;
    for (const Group& group : groups) {
        zones = std::max<std::size_t>(zones, group.zones.back() + 1UL);
    }
    const std::size_t fair = (zones + count - 1) / count;
    std::vector<Instance> instances(count, {.loaded = std::vector<bool>(zones)});
    std::vector<unsigned> assigned(groups.size());
    std::size_t left = groups.size();
    std::size_t empty = count;
    for (const GroupIndex index : by_size(groups)) {
        const Group& group = groups[index];
        // Less is better: it has something while the last groups must go to those with nothing, it
        // would have more than its fair share, the zones it would have to load, the zones and the
        // groups it has.
        const auto rank = [&](const Instance& one) {
            const auto fresh = static_cast<std::size_t>(std::ranges::count_if(
                group.zones, [&](ZoneIndex zone) { return !one.loaded[zone]; }));
            const bool unfair = left <= empty && one.groups > 0;
            const bool full = one.zones > 0 && one.zones + fresh > fair;
            return std::tuple(unfair, full, full ? 0 : fresh, one.zones, one.groups);
        };
        const auto best = std::ranges::min_element(instances, {}, rank);
        assigned[index] = static_cast<unsigned>(best - instances.begin());
        --left;
        empty -= best->groups++ == 0 ? 1U : 0U;
        for (const ZoneIndex zone : group.zones) {
            best->zones += best->loaded[zone] ? 0U : 1U;
            best->loaded[zone] = true;
        }
    }
    return assigned;
}

std::vector<Slot> make_slots(std::vector<Group>& groups, const std::vector<Color>& colors,
                             const std::vector<unsigned>& instances, Form form) {
    std::map<std::pair<unsigned, Color>, Slot> slots;
    for (GroupIndex group = 0; group < groups.size(); ++group) {
        const Color color = form == Form::kPaper      ? 0
                            : form == Form::kSeparate ? group
                                                      : colors[group];
        Slot& slot = slots[{instances[group], color}];
        slot.instance = instances[group];
        slot.color = color;
        slot.groups.push_back(group);
        slot.zones.insert(slot.zones.end(), groups[group].zones.begin(), groups[group].zones.end());
    }
    std::vector<Slot> sorted;
    for (auto& [key, slot] : slots) {
        sort_unique(slot.zones);
        for (const GroupIndex group : slot.groups) {
            groups[group].slot = static_cast<std::uint32_t>(sorted.size());
        }
        sorted.push_back(std::move(slot));
    }
    return sorted;
}

std::vector<MetaAddress> meta_addresses(std::size_t slots, std::size_t resolvers, const Prefix& v4,
                                        const Prefix& v6) {
    std::vector<MetaAddress> addresses;
    const std::size_t needed = slots * resolvers;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
        for (std::uint32_t resolver = 0; resolver < resolvers; ++resolver) {
            const std::size_t n = addresses.size() + 1;
            addresses.push_back({.slot = slot,
                                 .resolver = resolver,
                                 .v4 = meta_address(v4, n, needed, "--meta4"),
                                 .v6 = meta_address(v6, n, needed, "--meta6")});
        }
    }
    return addresses;
}

} // namespace reprise::zonebuilder
