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
#include "zonebuilder/plan/slots.hh"

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/base/prefix.hh"
#include "zonebuilder/plan/conflicts.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
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
