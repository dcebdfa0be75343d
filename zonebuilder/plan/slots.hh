#pragma once
// Groups -> instances of the meta-DNS-server -> slots and views.

#include "core/base/address.hh"
#include "core/base/prefix.hh"
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
#include <optional>
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

} // namespace reprise::zonebuilder
