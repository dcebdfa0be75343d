// Hosts of all zones in one table: name servers are named in one zone and have their addresses in
// another, and aliases may lead on to a third.
//
// A search follows every alias. Where a zone has several contents, or only glue is known of a name,
// wildcards may stand for it as well: to see an address too many costs an edge in the graph of
// conflicts, to miss one a wrong answer.
#include "core/base/address.hh"
#include "zonebuilder/plan/plan.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// DNAMEs may lead a name below itself, so that it grows with every step.
constexpr std::size_t kMostNames = 64;

void append(std::vector<IpAddress>& to, const std::vector<IpAddress>& from) {
    to.insert(to.end(), from.begin(), from.end());
}

/// The zones are sorted, so other contents of a name are neighbors.
bool only_content(const std::vector<Zone>& zones, std::size_t i) {
    return (i == 0 || zones[i].name != zones[i - 1].name) &&
           (i + 1 == zones.size() || zones[i].name != zones[i + 1].name);
}

} // namespace

/// What a search has found, and which names it has met.
struct AddressBook::Search {
    std::vector<IpAddress> own;
    std::vector<IpAddress> glue;
    std::set<NameKey> met;
    std::vector<NameKey> ahead; ///< names still to look at

    void follow(const NameKey& name) {
        if (met.size() < kMostNames && met.insert(name).second) {
            ahead.push_back(name);
        }
    }

    void take(const Host& host) {
        append(own, host.own);
        append(glue, host.glue);
        for (const NameKey& alias : host.aliases) {
            follow(alias);
        }
    }
};

AddressBook::AddressBook(const std::vector<Zone>& zones) {
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const Zone& zone = zones[i];
        const bool only = only_content(zones, i);
        for (const HostAddress& host : zone.hosts) {
            Host& entry = hosts_[host.host.key()];
            (host.glue ? entry.glue : entry.own).push_back(host.address);
            entry.everywhere = entry.everywhere || (only && !host.glue);
        }
        for (const Alias& alias : zone.aliases) {
            Host& entry = hosts_[alias.owner.key()];
            (alias.subtree ? entry.subtrees : entry.aliases).push_back(alias.target);
        }
    }
    for (auto& [key, host] : hosts_) {
        sort_unique(host.own);
        sort_unique(host.glue);
    }
}

const AddressBook::Host* AddressBook::find(std::string_view key) const {
    const auto found = hosts_.find(key);
    return found == hosts_.end() ? nullptr : &found->second;
}

/// Wildcards right below, and DNAMEs at, the names above this one. `known`: where the name has data
/// of its own in any case, wildcards do not stand for it.
void AddressBook::look_above(const NameKey& name, bool known, Search& search) const {
    for (const std::string_view key :
         name.enclosing() | std::views::reverse | std::views::drop(1)) {
        if (const Host* const wild = known ? nullptr : find(wildcard_key(key))) {
            search.take(*wild);
            known = wild->everywhere;
        }
        if (const Host* const host = find(key)) {
            for (const NameKey& target : host->subtrees) {
                if (const auto moved = name.moved(key, target)) {
                    search.follow(*moved);
                }
            }
        }
    }
}

AddressBook::Search AddressBook::look_for(const NameKey& host) const {
    Search search;
    search.follow(host);
    while (!search.ahead.empty()) {
        const NameKey name = std::move(search.ahead.back());
        search.ahead.pop_back();
        const Host* const exact = find(name.key());
        if (exact != nullptr) {
            search.take(*exact);
        }
        look_above(name, exact != nullptr && exact->everywhere, search);
    }
    return search;
}

std::vector<IpAddress> AddressBook::real(const NameKey& host) const {
    Search found = look_for(host);
    std::vector<IpAddress>& addresses = found.own.empty() ? found.glue : found.own;
    sort_unique(addresses);
    return std::move(addresses);
}

std::vector<IpAddress> AddressBook::any(const NameKey& host) const {
    Search found = look_for(host);
    append(found.own, found.glue);
    sort_unique(found.own);
    return std::move(found.own);
}

// Who serves what.
//
// The addresses of a zone are those that zones.json states. Without them they are those of the
// names in its apex NS RRset and in its parent's delegation: resolvers go where the parent sends
// them, and only there if the zone is of another day than its parent and its own servers are
// unknown here. Of a zone with several contents the parent cannot say which one it means, so only
// the apex counts. A host's address is what the zone says that owns the name; glue is only a copy
// and may be stale, so it counts where nothing else is known.
//
// Addresses with the same set of zones cannot be told apart by any answer, so they are planned as
// one group. That is what makes the graph small: an operator's servers mostly hold the same zones.

namespace {

Reserved range(std::string_view prefix, std::string why) {
    return {.prefix = known_prefix(prefix), .why = std::move(why)};
}

/// Ranges that never leave a host or have no single owner: loopback, multicast and their like.
const std::vector<Reserved> kNeverRoutable{
    range("::/128", "the unspecified address"),
    range("::1/128", "loopback"),
    range("::ffff:0:0/96", "IPv4-mapped"),
    range("fe80::/10", "link-local"),
    range("ff00::/8", "multicast"),
    range("0.0.0.0/8", "this network (0/8)"),
    range("127.0.0.0/8", "loopback"),
    range("169.254.0.0/16", "link-local"),
    range("224.0.0.0/4", "multicast"),
    range("240.0.0.0/4", "reserved (240/4)"),
};

} // namespace

std::optional<std::string> why_unroutable(const IpAddress& address,
                                          const std::vector<Reserved>& reserved) {
    for (const auto* ranges : {&kNeverRoutable, &reserved}) {
        const auto hit = std::ranges::find_if(
            *ranges, [&](const Reserved& one) { return one.prefix.holds(address); });
        if (hit != ranges->end()) {
            return hit->why;
        }
    }
    return std::nullopt;
}

std::optional<IpAddress> nth_address(const Prefix& prefix, std::uint64_t n) {
    const std::uint64_t usable = (std::uint64_t{1} << std::min(prefix.free_bits(), 62U)) -
                                 (prefix.address.is_v4() ? 1 : 0); // nobody numbers 2^62
    return n < usable ? prefix.host(n) : std::nullopt;
}

namespace {

using Names = std::vector<NameKey>;

/// For each zone that some other zone here delegates: to whom.
using Delegated = std::unordered_map<std::string_view, Names>;

Delegated delegated_zones(const std::vector<Zone>& zones) {
    Delegated delegated;
    for (const Zone& zone : zones) {
        delegated.try_emplace(zone.name.key());
    }
    for (const Zone& parent : zones) {
        for (const Delegation& delegation : parent.delegations) {
            if (const auto child = delegated.find(delegation.name.key());
                child != delegated.end()) {
                child->second.insert(child->second.end(), delegation.servers.begin(),
                                     delegation.servers.end());
            }
        }
    }
    return delegated;
}

/// Those that are stated, else those of the zone's name servers and of others.
std::vector<IpAddress> servers_of(const Zone& zone, const AddressBook& book,
                                  const Names& others = {}) {
    if (zone.stated) {
        return *zone.stated;
    }
    std::vector<IpAddress> addresses;
    for (const Names* const names : {&zone.servers, &others}) {
        for (const NameKey& server : *names) {
            append(addresses, book.real(server));
        }
    }
    sort_unique(addresses);
    return addresses;
}

/// The operator fixes these by another file each, so they are told apart.
std::string why_unserved(const Zone& zone, bool has_addresses) {
    if (has_addresses) {
        return "none of its addresses can be routed";
    }
    if (zone.stated) {
        return "its list of addresses is empty";
    }
    return fmt::format("no zone has an address of {}{}", zone.servers.front().text(),
                       zone.servers.size() > 1 ? " or its other name servers" : "");
}

} // namespace

Serving serve(const std::vector<Zone>& zones, const AddressBook& book,
              const std::vector<Reserved>& reserved) {
    Serving serving;
    const Delegated delegated = delegated_zones(zones);
    for (ZoneIndex i = 0; i < zones.size(); ++i) {
        bool reachable = false;
        const std::vector<IpAddress> servers =
            only_content(zones, i) ? servers_of(zones[i], book, delegated.at(zones[i].name.key()))
                                   : servers_of(zones[i], book);
        for (const IpAddress& address : servers) {
            if (auto why = why_unroutable(address, reserved)) {
                Unroutable& entry = serving.unroutable[address];
                entry.why = *std::move(why);
                entry.zones.push_back(i);
            } else {
                serving.zones_of[address].push_back(i);
                reachable = true;
            }
        }
        if (!reachable) {
            serving.unserved.push_back({i, why_unserved(zones[i], !servers.empty())});
        }
    }
    return serving;
}

std::vector<BadZone> contradictions(const std::vector<Zone>& zones, const AddressBook& book) {
    std::vector<BadZone> bad;
    std::map<IpAddress, const Zone*> takers;
    for (std::size_t i = 0; i < zones.size(); ++i) {
        if (i > 0 && zones[i].name != zones[i - 1].name) {
            takers.clear();
        }
        if (only_content(zones, i)) {
            continue;
        }
        const std::vector<IpAddress> servers = servers_of(zones[i], book);
        const auto clash = std::ranges::find_if(
            servers, [&](const IpAddress& address) { return takers.contains(address); });
        if (clash != servers.end()) {
            bad.push_back(
                {.name = zones[i].name.text(),
                 .file = zones[i].file,
                 .line = 0,
                 .why = fmt::format("{} serves this zone from {} already; an address has one "
                                    "content of a zone",
                                    clash->text(), takers[*clash]->file)});
            continue;
        }
        for (const IpAddress& address : servers) {
            takers.emplace(address, &zones[i]);
        }
    }
    return bad;
}

bool Group::serves(ZoneIndex zone) const { return std::ranges::binary_search(zones, zone); }

bool Group::serves_any(ZoneRange range) const {
    const auto first = std::ranges::lower_bound(zones, range.first);
    return first != zones.end() && *first < range.end;
}

std::vector<Group> make_groups(const Serving& serving) {
    std::map<std::vector<ZoneIndex>, std::vector<IpAddress>> sets;
    for (const auto& [address, zones] : serving.zones_of) {
        sets[zones].push_back(address);
    }
    std::vector<Group> groups;
    groups.reserve(sets.size());
    for (auto& [zones, addresses] : sets) {
        groups.push_back({.zones = zones, .addresses = std::move(addresses)});
    }
    return groups;
}

std::size_t add_root_addresses(std::vector<Group>& groups, const ZoneTree& tree,
                               const std::vector<Reserved>& reserved) {
    const ZoneRange roots = tree.at(NameKey{}.key());
    const auto root = std::ranges::min_element(groups, {}, [&](const Group& one) {
        return std::pair(!one.serves_any(roots), one.zones.size());
    });
    if (root == groups.end() || !root->serves_any(roots)) {
        return 0;
    }
    std::size_t added = 0;
    for (const std::string_view text : kRootServerAddresses) {
        const IpAddress address = known_prefix(text).address;
        const bool taken = std::ranges::any_of(groups, [&](const Group& one) {
            return std::ranges::binary_search(one.addresses, address);
        });
        if (!taken && !why_unroutable(address, reserved)) {
            root->addresses.push_back(address);
            std::ranges::sort(root->addresses);
            ++added;
        }
    }
    return added;
}

std::unordered_map<IpAddress, GroupIndex> group_of_address(const std::vector<Group>& groups) {
    std::unordered_map<IpAddress, GroupIndex> of;
    for (GroupIndex i = 0; i < groups.size(); ++i) {
        for (const IpAddress& address : groups[i].addresses) {
            of.emplace(address, i);
        }
    }
    return of;
}

} // namespace reprise::zonebuilder
