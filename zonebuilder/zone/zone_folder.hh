#pragma once
// The planner's input: a folder of zone files, with or without zones.json.

#include "core/base/address.hh"
#include "zonebuilder/zone/name.hh"
#include "zonebuilder/zone/zone.hh"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// One file to read: what zones.json says about it, or only its name.
struct ZoneEntry {
    std::optional<Name> name;
    std::string file;
    std::optional<std::vector<IpAddress>> addresses;
};

/// Reads zones.json (schema 1). Throws Error that names the entry and the hint.
std::vector<ZoneEntry> parse_zones_json(std::string_view text);

/// The entries of DIR/zones.json, or every *.zone file of DIR in the order of names.
std::vector<ZoneEntry> list_zones(const std::filesystem::path& folder);

struct LoadedZones {
    std::vector<Zone> zones; ///< by name, then by file
    std::vector<BadZone> bad;
};

/// Reads every file; what does not load is in `bad`.
LoadedZones load_zones(const std::filesystem::path& folder, const std::vector<ZoneEntry>& entries);

} // namespace reprise::zonebuilder
