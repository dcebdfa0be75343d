// The steps of planning, each a function on values:
//
//   zones -> who serves them -> groups of addresses with the same zones -> lame delegations ->
//   conflicts between groups, colors (conflicts.cc) -> instances and slots (slots.cc) -> views
//
// Every step sorts what it hands on, so the same zones give the same plan on every machine.
#include "zonebuilder/plan/plan.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/prefix.hh"
#include "zonebuilder/plan/address_book.hh"
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/plan/slots.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_folder.hh"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

Prefix lone(const IpAddress& address) {
    return {.address = address, .bits = static_cast<unsigned>(address.size()) * 8};
}

/// Everything that must not be an OQDA.
std::vector<Reserved> all_reserved(const PlanSettings& settings) {
    std::vector<Reserved> reserved = settings.reserved;
    for (const Resolver& resolver : settings.resolvers) {
        for (const auto& address : {resolver.v4, resolver.v6}) {
            if (address) {
                reserved.push_back({lone(*address), "a resolver's own address"});
            }
        }
    }
    reserved.push_back({settings.meta4, "a meta address"});
    reserved.push_back({settings.meta6, "a meta address"});
    return reserved;
}

/// Measures the steps of planning.
class Stopwatch {
public:
    template <typename Step> void measure(const std::string& name, const Step& step) {
        const Nanoseconds before = SteadyClock::now();
        step();
        seconds_[name] =
            static_cast<double>(SteadyClock::now() - before) / static_cast<double>(kSecond);
    }

    [[nodiscard]] const std::map<std::string, double>& seconds() const { return seconds_; }

private:
    std::map<std::string, double> seconds_;
};

RootServer root_server(const NameKey& name, const Zone& root, const AddressBook& book,
                       const std::unordered_map<IpAddress, GroupIndex>& mapped) {
    RootServer server{.name = name, .ttl = root.ns_ttl, .addresses = book.real(name)};
    std::erase_if(server.addresses,
                  [&](const IpAddress& address) { return !mapped.contains(address); });
    return server;
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
            const auto& server =
                servers.try_emplace(name, root_server(name, zones[root], book, mapped))
                    .first->second;
            reachable = reachable || !server.addresses.empty();
        }
    }
    if (!reachable && !servers.empty()) {
        servers.begin()->second.addresses = addresses_serving(groups, roots);
    }
    std::vector<RootServer> sorted;
    sorted.reserve(servers.size());
    for (auto& [name, server] : servers) {
        sorted.push_back(std::move(server));
    }
    return sorted;
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

/// Groups, and who is left out of them.
void plan_groups(Plan& plan, const std::vector<Zone>& zones, const AddressBook& book,
                 const std::vector<Reserved>& reserved) {
    Serving serving = serve(zones, book, reserved);
    plan.groups = make_groups(serving);
    plan.unroutable = std::move(serving.unroutable);
    plan.unserved = std::move(serving.unserved);
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

/// Who is asked in vain is asked as if by a lame delegation.
std::vector<Lame> with_asked(std::vector<Lame> lame, const std::vector<AskedInVain>& asked) {
    for (const AskedInVain& one : asked) {
        for (const IpAddress& address : one.addresses) {
            lame.push_back({one.name, one.name, NameKey{}, address, true});
        }
    }
    return lame;
}

/// Slots and what follows from them.
void plan_slots(Plan& plan, const std::vector<Color>& colors, const PlanSettings& settings) {
    const auto instances = assign_instances(plan.groups, settings.instances);
    plan.colors = std::ranges::max(colors) + 1;
    plan.slots = make_slots(plan.groups, colors, instances, settings.form);
    plan.slot_of_group = slot_of_groups(plan.slots, plan.groups.size());
    plan.meta = meta_addresses(plan.slots.size(), settings.resolvers.size(), settings.meta4,
                               settings.meta6);
}

} // namespace

Plan make_plan(const std::vector<Zone>& zones, const PlanSettings& settings,
               const std::vector<AskedInVain>& asked) {
    Plan plan;
    Stopwatch watch;
    const std::vector<Reserved> reserved = all_reserved(settings);
    const ZoneTree tree(zones);
    const AddressBook book(zones);
    watch.measure("serve", [&] { plan_groups(plan, zones, book, reserved); });
    check_settings(settings, plan);
    plan_root(plan, zones, tree, book, settings.engine);
    if (settings.root_addresses) {
        plan.root_addresses = add_root_addresses(plan.groups, tree, reserved);
    }
    const auto group_of = group_of_address(plan.groups);
    watch.measure("lame", [&] { plan.lame = find_lame(zones, tree, book, plan.groups, group_of); });
    watch.measure("conflicts", [&] {
        const std::vector<Lame> lame = with_asked(plan.lame, asked);
        plan.edges = find_conflicts(zones, tree, plan.groups, lame, group_of, settings.engine);
    });
    std::vector<Color> colors;
    watch.measure("color", [&] { colors = color_graph(plan.groups.size(), plan.edges); });
    watch.measure("slots", [&] { plan_slots(plan, colors, settings); });
    plan.seconds = watch.seconds();
    return plan;
}

} // namespace reprise::zonebuilder
