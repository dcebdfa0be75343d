// What is made up, and only that:
//
// - Zones that a resolver has to pass on its way from the root: the root, zones that are known to
//   lie above others, and those that hold the names of name servers.
// - SOA records; NS records, copies of the parent's.
// - Addresses of name servers: copies of glue; where nobody told them, addresses that answered for
//   the zone.
// - Delegations, copies of the child's NS records with the glue that they need.
// - Records that servers need to return recorded signatures and denials (proofs.cc).
// - A record below a name that exists without any (denials.cc).

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

std::string_view view(const IpAddress& address) {
    return {reinterpret_cast<const char*>(address.bytes.data()), address.size()};
}

/// A name server is no alias: drops the one at its name.
void drop_alias(Draft& zone, NameId name, Drafts& drafts) {
    std::erase_if(zone.rrsets, [&](const DraftRrset& one) {
        const bool alias = one.owner == name && one.type == kTypeCname;
        if (alias) {
            drafts.dropped.push_back(
                {.observation = one.observation, .why = "alias_of_name_server"});
        }
        return alias;
    });
}

class Completer : public Maker {
public:
    Completer(Observations& seen, const Hierarchy& hierarchy, Drafts& drafts)
        : Maker(seen, drafts), hierarchy_(hierarchy) {}

    void run() {
        index_zones();
        add_zones();
        find_servers();
        each(&Completer::add_servers);
        each(&Completer::add_soa);
        each(&Completer::add_addresses);
        for (const auto& [place, addresses] : dealt_) {
            make_addresses(place.first, place.second, {addresses.begin(), addresses.end()},
                           "address_that_answered");
        }
        flush();
        each(&Completer::add_own_addresses);
        each(&Completer::add_delegation);
    }

private:
    /// Takes a step for each zone; what it makes is there for the next step.
    void each(void (Completer::*step)(std::size_t)) {
        for (std::size_t i = 0; i < zones().size(); ++i) {
            (this->*step)(i);
        }
        flush();
    }

    // Zones

    void index_zones() {
        for (std::size_t i = 0; i < zones().size(); ++i) {
            zone_at_[zones()[i].name] = i;
        }
    }

    /// The lowest zone of ours that encloses the name.
    [[nodiscard]] std::size_t enclosing(NameId name) const {
        return zone_at_.at(
            names_.lowest(name, [this](NameId one) { return zone_at_.contains(one); }));
    }

    void add_zone(NameId name) {
        if (zone_at_.try_emplace(name, zones().size()).second) {
            zones().push_back({.name = name, .cut = hierarchy_.at(name)});
        }
    }

    /// All known zones around a name but the root, which is there.
    void add_enclosing(NameId name) {
        for (; name != NameTable::kRoot; name = names_.parent(name)) {
            if (hierarchy_.at(name) != Hierarchy::kNone) {
                add_zone(name);
            }
        }
    }

    /// The list grows on the way.
    void add_zones() {
        add_zone(NameTable::kRoot);
        for (std::size_t next = 0; next < zones().size();) {
            const CutIndex cut = zones()[next].cut;
            add_enclosing(zones()[next++].name);
            if (cut == Hierarchy::kNone) {
                continue;
            }
            for (const NameId target : hierarchy_.cuts()[cut].targets) {
                if (!hierarchy_.addresses(target).empty()) {
                    add_enclosing(target);
                }
            }
        }
        std::ranges::sort(zones(), {}, [this](const Draft& zone) { return names_.key(zone.name); });
        index_zones();
    }

    // Servers

    void find_servers() {
        std::set<std::pair<ServerId, CutIndex>> failed;
        for (const Failed& one : seen_.failures()) {
            failed.emplace(one.server, hierarchy_.enclosing(one.name));
        }
        for (Draft& zone : zones()) {
            for (const ServerId server : zone.seen_serving) {
                zone.addresses.push_back(seen_.address(server));
            }
            if (zone.cut == Hierarchy::kNone) {
                continue;
            }
            for (const ServerId server : hierarchy_.cuts()[zone.cut].servers) {
                if (std::ranges::binary_search(zone.seen_serving, server)) {
                    continue;
                }
                if (failed.contains({server, zone.cut})) {
                    drafts_.lame.push_back({.zone = zone.name, .server = server});
                } else {
                    zone.addresses.push_back(seen_.address(server));
                }
            }
            std::ranges::sort(zone.addresses);
        }
    }

    /// NS records at the apex: the parent's; those that somebody told of; one of our own.
    void add_servers(std::size_t i) {
        Draft& zone = zones()[i];
        if (find(zone, zone.name, kTypeNs) != nullptr) {
            return;
        }
        const Draft& parent = zones()[enclosing(names_.parent(zone.name))];
        const DraftRrset* const delegation = find(parent, zone.name, kTypeNs);
        if (delegation != nullptr) {
            make(i, zone.name, kTypeNs, delegation->content, delegation->ttl,
                 "servers_from_parent");
            return;
        }
        std::vector<std::string> data;
        if (zone.cut != Hierarchy::kNone) {
            for (const NameId target : hierarchy_.cuts()[zone.cut].targets) {
                data.push_back(wire_of(names_.name(target)));
            }
        }
        if (data.empty()) {
            data.push_back(wire_of(own_server(zone)));
            if (zone.name == NameTable::kRoot && zone.addresses.empty()) {
                for (const auto text : std::span(kRootServerAddresses).first(2)) {
                    zone.addresses.push_back(known_prefix(text).address);
                }
            }
        }
        make(i, zone.name, kTypeNs, content(std::move(data)), kTtl, "servers_unknown");
    }

    /// A name for a server whose name was not recorded: in the zone, or next to it if a DNAME
    /// leaves no room there.
    NameKey own_server(const Draft& zone) {
        if (zone.name == NameTable::kRoot) {
            const NameKey name = NameKey::parse("a.root-servers.net.").value_or(NameKey{});
            names_.add(name);
            return name;
        }
        const bool renames = find(zone, zone.name, kTypeDname) != nullptr;
        const NameId above = renames ? names_.parent(zone.name) : zone.name;
        constexpr std::size_t kLongest = 63;
        std::string label = "reprise-ns";
        if (renames) {
            label += '-';
            label += names_.key(zone.name).substr(names_.key(above).size() + 1);
            label.resize(std::min(label.size(), kLongest));
        }
        const NameKey name = NameKey::of_key(std::string(names_.key(above)) +
                                             static_cast<char>(label.size()) + label);
        names_.add(name);
        return name;
    }

    void add_soa(std::size_t i) {
        const Draft& zone = zones()[i];
        if (find(zone, zone.name, kTypeSoa) != nullptr) {
            return;
        }
        const NameKey first = names_.name(servers_of(zone).front());
        make(i, zone.name, kTypeSoa, content({soa_of(first)}), kTtl, "no_soa");
    }

    /// By the NS records that every zone has since add_servers(); one at least.
    std::vector<NameId> servers_of(const Draft& zone) {
        return servers_in(seen_.contents()[find(zone, zone.name, kTypeNs)->content], names_);
    }

    // Addresses of name servers

    void make_addresses(std::size_t zone, NameId owner, const std::vector<IpAddress>& addresses,
                        std::string_view why) {
        for (const std::uint16_t type : {kTypeA, kTypeAaaa}) {
            std::vector<std::string> data;
            for (const IpAddress& address : addresses) {
                if (address.is_v4() == (type == kTypeA)) {
                    data.emplace_back(view(address));
                }
            }
            if (!data.empty()) {
                make(zone, owner, type, content(std::move(data)), kTtl, why);
            }
        }
    }

    [[nodiscard]] bool has_address(std::size_t zone, NameId name) {
        return find(zones()[zone], name, kTypeA) != nullptr ||
               find(zones()[zone], name, kTypeAaaa) != nullptr ||
               find(zones()[zone], name, kTypeCname) != nullptr;
    }

    /// The name servers' own zones have their addresses.
    void add_addresses(std::size_t i) {
        std::vector<NameId> without;
        std::vector<IpAddress> known;
        for (const NameId target : servers_of(zones()[i])) {
            const auto& addresses = hierarchy_.addresses(target);
            const std::size_t home = enclosing(target);
            known.insert(known.end(), addresses.begin(), addresses.end());
            if (has_address(home, target)) {
                continue;
            }
            if (addresses.empty()) {
                without.push_back(target);
            }
            make_addresses(home, target, addresses, "address_from_glue");
        }
        add_unknown_addresses(i, without, known);
    }

    /// Servers that answered, but whose names are not known, get the names without addresses.
    void add_unknown_addresses(std::size_t i, const std::vector<NameId>& without,
                               const std::vector<IpAddress>& known) {
        std::size_t next = 0;
        for (const IpAddress& address : zones()[i].addresses) {
            if (!without.empty() && std::ranges::find(known, address) == known.end()) {
                const NameId target = without[next++ % without.size()];
                dealt_[{enclosing(target), target}].insert(address);
            }
        }
        if (zones()[i].addresses.empty()) {
            drafts_.unreachable.push_back(zones()[i].name);
        }
    }

    /// Servers load no zone with a name server in it that has no address, or is an alias. Of those
    /// below a cut, as the root's are, the addresses go with the NS records.
    void add_own_addresses(std::size_t i) {
        Draft& zone = zones()[i];
        for (const NameId target : servers_of(zone)) {
            if (enclosing(target) != i) {
                add_glue(i, target, zone.name);
                continue;
            }
            drop_alias(zone, target, drafts_);
            if (!has_address(i, target)) {
                const bool known = !zone.addresses.empty();
                const IpAddress nobody = IpAddress::v4(bytes_of(kNobody).data());
                make_addresses(i, target, known ? zone.addresses : std::vector{nobody},
                               known ? "address_of_another_server" : "address_unknown");
            }
        }
    }

    // Delegations

    void add_delegation(std::size_t i) {
        const NameId name = zones()[i].name;
        if (name == NameTable::kRoot) {
            return;
        }
        const std::size_t parent = enclosing(names_.parent(name));
        const DraftRrset* servers = find(zones()[parent], name, kTypeNs);
        if (servers == nullptr) {
            servers = find(zones()[i], name, kTypeNs);
            make(parent, name, kTypeNs, servers->content, servers->ttl, "delegation_from_child");
        }
        for (const NameId target : servers_in(seen_.contents()[servers->content], names_)) {
            add_glue(parent, target, name);
        }
    }

    /// In a zone, for a name server at or below a cut of it.
    void add_glue(std::size_t zone, NameId target, NameId cut) {
        if (names_.within(target, cut) && !has_address(zone, target)) {
            make_addresses(zone, target, own_addresses(target), "glue_from_child");
        }
    }

    /// Of a name server, from its own zone, else from elsewhere.
    std::vector<IpAddress> own_addresses(NameId target) {
        std::vector<IpAddress> found;
        const std::size_t home = enclosing(target);
        for (const std::uint16_t type : {kTypeA, kTypeAaaa}) {
            if (const DraftRrset* const one = find(zones()[home], target, type)) {
                for (const std::string_view data : rdatas(seen_.contents()[one->content])) {
                    const auto* const bytes = bytes_of(data).data();
                    found.push_back(type == kTypeA ? IpAddress::v4(bytes) : IpAddress::v6(bytes));
                }
            }
        }
        return found.empty() ? hierarchy_.addresses(target) : found;
    }

    const Hierarchy& hierarchy_;
    std::unordered_map<NameId, std::size_t> zone_at_;
    /// Of name servers by zone and name: addresses that answered for zones that they serve.
    std::map<std::pair<std::size_t, NameId>, std::set<IpAddress>> dealt_;
};

} // namespace

void complete(Observations& seen, const Hierarchy& hierarchy, Drafts& drafts) {
    Completer(seen, hierarchy, drafts).run();
    add_proofs(seen, drafts);
    add_denials(seen, drafts);
}

} // namespace reprise::zonebuilder
