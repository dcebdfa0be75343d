// Hosts of all zones in one table: name servers are named in one zone and have their addresses in
// another.
#include "zonebuilder/address_book.hh"

#include "core/address.hh"
#include "zonebuilder/name.hh"
#include "zonebuilder/zone.hh"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {
namespace {

void sort_unique(std::vector<IpAddress>& addresses) {
    std::ranges::sort(addresses);
    const auto twice = std::ranges::unique(addresses);
    addresses.erase(twice.begin(), twice.end());
}

} // namespace

AddressBook::AddressBook(const std::vector<Zone>& zones) {
    for (const Zone& zone : zones) {
        for (const HostAddress& host : zone.hosts) {
            Addresses& addresses = hosts_[host.host.key()];
            (host.glue ? addresses.glue : addresses.own).push_back(host.address);
        }
    }
    for (auto& [key, addresses] : hosts_) {
        sort_unique(addresses.own);
        sort_unique(addresses.glue);
    }
}

const AddressBook::Addresses* AddressBook::find(const Name& host) const {
    if (const auto exact = hosts_.find(host.key()); exact != hosts_.end()) {
        return &exact->second;
    }
    for (const std::string_view key :
         host.enclosing() | std::views::reverse | std::views::drop(1)) {
        if (const auto wild = hosts_.find(wildcard_key(key)); wild != hosts_.end()) {
            return &wild->second;
        }
    }
    return nullptr;
}

std::vector<IpAddress> AddressBook::real(const Name& host) const {
    const Addresses* addresses = find(host);
    if (addresses == nullptr) {
        return {};
    }
    return addresses->own.empty() ? addresses->glue : addresses->own;
}

std::vector<IpAddress> AddressBook::any(const Name& host) const {
    const Addresses* addresses = find(host);
    if (addresses == nullptr) {
        return {};
    }
    std::vector<IpAddress> all = addresses->own;
    all.insert(all.end(), addresses->glue.begin(), addresses->glue.end());
    sort_unique(all);
    return all;
}

} // namespace reprise::zonebuilder
