#pragma once
// Finds zones by name: those that enclose a name and those below it.

#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

using ZoneIndex = std::uint32_t;

/// Zones [first, end) of the sorted list.
struct ZoneRange {
    ZoneIndex first = 0;
    ZoneIndex end = 0;

    [[nodiscard]] bool empty() const { return first == end; }
};

/// An index over zones that are sorted by name; it keeps no copy, so they must stay where they are.
/// Zones of one name are neighbors, and so are a name's descendants, right behind it: every answer
/// is a range.
class ZoneTree {
public:
    explicit ZoneTree(const std::vector<Zone>& zones);

    /// The zones with this key, one for each content.
    [[nodiscard]] ZoneRange at(std::string_view key) const;

    /// The zones below the name, without those at it.
    [[nodiscard]] ZoneRange below(const NameKey& name) const;

    /// For every zone name that encloses or equals `name`, root first, the zones there.
    [[nodiscard]] std::vector<ZoneRange> enclosing(const NameKey& name) const;

private:
    const std::vector<Zone>* zones_;
    std::unordered_map<std::string_view, ZoneRange> ranges_;
};

} // namespace reprise::zonebuilder
