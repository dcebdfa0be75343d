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
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_folder.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
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
    const auto measure = [&](const std::string& name, const auto& step) {
        const Nanoseconds before = SteadyClock::now();
        step();
        plan.seconds[name] =
            static_cast<double>(SteadyClock::now() - before) / static_cast<double>(kSecond);
    };
    const std::vector<Reserved> reserved = all_reserved(settings);
    const ZoneTree tree(zones);
    const AddressBook book(zones);
    measure("serve", [&] { plan_groups(plan, zones, book, reserved); });
    check_settings(settings, plan);
    plan_root(plan, zones, tree, book, settings.engine);
    if (settings.root_addresses) {
        plan.root_addresses = add_root_addresses(plan.groups, tree, reserved);
    }
    const auto group_of = group_of_address(plan.groups);
    measure("lame", [&] { plan.lame = find_lame(zones, tree, book, plan.groups, group_of); });
    measure("conflicts", [&] {
        const std::vector<Lame> lame = with_asked(plan.lame, asked);
        plan.edges = find_conflicts(zones, tree, plan.groups, lame, group_of, settings.engine);
    });
    std::vector<Color> colors;
    measure("color", [&] { colors = color_graph(plan.groups.size(), plan.edges); });
    measure("slots", [&] { plan_slots(plan, colors, settings); });
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

/// Instances with what was assigned to them so far.
class InstanceAssigner {
public:
    InstanceAssigner(std::size_t groups, std::size_t zones, unsigned instances)
        : left_(groups), empty_(instances), load_(instances), groups_(instances),
          loaded_(instances, std::vector<bool>(zones)), fair_((zones + instances - 1) / instances) {
    }

    unsigned assign(const Group& group) {
        const unsigned best = best_for(group);
        --left_;
        empty_ -= groups_[best] == 0 ? 1U : 0U;
        ++groups_[best];
        for (const ZoneIndex zone : group.zones) {
            load_[best] += loaded_[best][zone] ? 0U : 1U;
            loaded_[best][zone] = true;
        }
        return best;
    }

private:
    [[nodiscard]] unsigned best_for(const Group& group) const {
        unsigned best = 0;
        for (unsigned i = 1; i < load_.size(); ++i) {
            if (rank(i, group) < rank(best, group)) {
                best = i;
            }
        }
        return best;
    }

    /// Less is better: it has something while the last groups must go to those with nothing, it
    /// would have more than its fair share, the zones it would have to load, the zones and the
    /// groups it has.
    [[nodiscard]] std::tuple<bool, bool, std::size_t, std::size_t, std::size_t>
    rank(unsigned instance, const Group& group) const {
        const auto fresh = static_cast<std::size_t>(std::ranges::count_if(
            group.zones, [&](ZoneIndex zone) { return !loaded_[instance][zone]; }));
        const bool unfair = left_ <= empty_ && groups_[instance] > 0;
        const bool full = load_[instance] > 0 && load_[instance] + fresh > fair_;
        return {unfair, full, full ? 0 : fresh, load_[instance], groups_[instance]};
    }

    std::size_t left_;              ///< groups to deal
    std::size_t empty_;             ///< instances without a group
    std::vector<std::size_t> load_; ///< zones
    std::vector<std::size_t> groups_;
    std::vector<std::vector<bool>> loaded_;
    std::size_t fair_;
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

std::size_t zone_count(const std::vector<Group>& groups) {
    std::size_t count = 0;
    for (const Group& group : groups) {
        count = std::max<std::size_t>(count, group.zones.back() + 1UL);
    }
    return count;
}

/// What groups of one instance must have in common to share a slot.
Color key_of(Form form, GroupIndex group, const std::vector<Color>& colors) {
    switch (form) {
    case Form::kPaper:
        return 0;
    case Form::kSeparate:
        return group;
    case Form::kColored:
        break;
    }
    return colors[group];
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

std::vector<unsigned> assign_instances(const std::vector<Group>& groups, unsigned instances) {
    std::vector<unsigned> assigned(groups.size());
    if (instances == 1) {
        return assigned;
    }
    InstanceAssigner assigner(groups.size(), zone_count(groups), instances);
    for (const GroupIndex group : by_size(groups)) {
        assigned[group] = assigner.assign(groups[group]);
    }
    return assigned;
}

std::vector<Slot> make_slots(const std::vector<Group>& groups, const std::vector<Color>& colors,
                             const std::vector<unsigned>& instances, Form form) {
    std::map<std::pair<unsigned, Color>, Slot> slots;
    for (GroupIndex group = 0; group < groups.size(); ++group) {
        const std::pair key(instances[group], key_of(form, group, colors));
        Slot& slot = slots[key];
        slot.instance = key.first;
        slot.color = key.second;
        slot.groups.push_back(group);
        slot.zones.insert(slot.zones.end(), groups[group].zones.begin(), groups[group].zones.end());
    }
    std::vector<Slot> sorted;
    for (auto& [key, slot] : slots) {
        sort_unique(slot.zones);
        sorted.push_back(std::move(slot));
    }
    return sorted;
}

std::vector<std::uint32_t> slot_of_groups(const std::vector<Slot>& slots, std::size_t groups) {
    std::vector<std::uint32_t> of(groups);
    for (std::uint32_t i = 0; i < slots.size(); ++i) {
        for (const GroupIndex group : slots[i].groups) {
            of[group] = i;
        }
    }
    return of;
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
