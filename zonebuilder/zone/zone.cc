// The sorted list of zones is the tree. A name's key is a prefix of the keys of all names below it,
// so these stand right behind it; what encloses a name are the prefixes of its own key, found by
// hash.
#include "zonebuilder/zone/zone.hh"

#include "zonebuilder/zone/name_key.hh"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

ZoneTree::ZoneTree(const std::vector<Zone>& zones) : zones_(&zones) {
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const auto index = static_cast<ZoneIndex>(i);
        const auto [place, fresh] =
            ranges_.try_emplace(zones[i].name.key(), ZoneRange{index, index});
        place->second.end = index + 1;
    }
}

ZoneRange ZoneTree::at(std::string_view key) const {
    const auto found = ranges_.find(key);
    return found == ranges_.end() ? ZoneRange{} : found->second;
}

ZoneRange ZoneTree::below(const NameKey& name) const {
    const auto first = std::ranges::upper_bound(*zones_, name, {}, &Zone::name);
    const auto end = std::partition_point(first, zones_->end(),
                                          [&](const Zone& zone) { return zone.name.within(name); });
    return {static_cast<ZoneIndex>(first - zones_->begin()),
            static_cast<ZoneIndex>(end - zones_->begin())};
}

std::vector<ZoneRange> ZoneTree::enclosing(const NameKey& name) const {
    std::vector<ZoneRange> ranges;
    for (const std::string_view key : name.enclosing()) {
        if (const ZoneRange range = at(key); !range.empty()) {
            ranges.push_back(range);
        }
    }
    return ranges;
}

} // namespace reprise::zonebuilder
