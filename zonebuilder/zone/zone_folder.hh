#pragma once
// The planner's input: a folder of zone files, with or without zones.json.

#include "core/base/address.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {

/// One file to read: what zones.json says about it, or only its name.
struct ZoneEntry {
    std::optional<NameKey> name;
    std::string file;
    std::optional<std::vector<IpAddress>> addresses;
};

/// A name that servers are asked for although none of their zones is about it.
struct AskedInVain {
    NameKey name;
    std::vector<IpAddress> addresses;
};

struct ZoneList {
    std::vector<ZoneEntry> zones;
    std::vector<AskedInVain> asked;
};

/// Reads zones.json (schema 1). Throws Error that names the entry and the hint.
ZoneList parse_zones_json(std::string_view text);

/// What DIR/zones.json lists, or every *.zone file of DIR in the order of names.
ZoneList list_zones(const std::filesystem::path& folder);

struct LoadedZones {
    std::vector<Zone> zones; ///< by name, then by file
    std::vector<BadZone> bad;
};

/// Reads every file; what does not load is in `bad`.
LoadedZones load_zones(const std::filesystem::path& folder, const std::vector<ZoneEntry>& entries);

} // namespace reprise::zonebuilder
