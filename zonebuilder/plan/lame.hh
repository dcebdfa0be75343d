#pragma once
// Delegations to servers that do not serve what is delegated to them.

#include "core/base/address.hh"
#include "zonebuilder/plan/address_book.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_tree.hh"

#include <compare>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

/// One address that a resolver asks about `zone` although it does not serve that.
struct Lame {
    NameKey zone;
    NameKey parent; ///< the zone with the NS record: the parent, or the zone itself
    NameKey server;
    IpAddress address;
    bool built = true; ///< the zone is among those here, at other addresses

    auto operator<=>(const Lame&) const = default;
};

/// Looks at every NS record, of parents and of apexes: resolvers believe both. Addresses outside
/// the map count only where the delegated zone is among `zones`; delegations to zones that nobody
/// has are no fault.
std::vector<Lame> find_lame(const std::vector<Zone>& zones, const ZoneTree& tree,
                            const AddressBook& book, const std::vector<Group>& groups,
                            const std::unordered_map<IpAddress, GroupIndex>& group_of);

} // namespace reprise::zonebuilder
