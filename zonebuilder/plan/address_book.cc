// Hosts of all zones in one table: name servers are named in one zone and have their addresses in
// another, and aliases may lead on to a third.
//
// A search follows every alias. Where a zone has several contents, or only glue is known of a name,
// wildcards may stand for it as well: to see an address too many costs an edge in the graph of
// conflicts, to miss one a wrong answer.
#include "zonebuilder/plan/address_book.hh"

#include "core/base/address.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <ranges>
#include <set>
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
    std::unordered_map<std::string_view, std::size_t> contents;
    for (const Zone& zone : zones) {
        ++contents[zone.name.key()];
    }
    for (const Zone& zone : zones) {
        const bool only = contents[zone.name.key()] == 1;
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

void AddressBook::look_at(const NameKey& name, Search& search) const {
    const Host* const exact = find(name.key());
    if (exact != nullptr) {
        search.take(*exact);
    }
    look_above(name, exact != nullptr && exact->everywhere, search);
}

AddressBook::Search AddressBook::look_for(const NameKey& host) const {
    Search search;
    search.follow(host);
    while (!search.ahead.empty()) {
        const NameKey name = std::move(search.ahead.back());
        search.ahead.pop_back();
        look_at(name, search);
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

} // namespace reprise::zonebuilder
