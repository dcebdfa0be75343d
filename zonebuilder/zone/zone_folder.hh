#pragma once
// Zone text -> records -> what the planner keeps of a zone.

#include "core/base/address.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reprise::zonebuilder {

/// Why a text is no zone, and in which line; 0 where it is in none.
struct ZoneFailure {
    std::uint64_t line = 0;
    std::string why;
};

/// Makes a zone of its records, or says why no server would load it: without a SOA or with several,
/// without NS at the apex, with other data beside a CNAME. With `expected` the SOA must be that
/// name's. Records outside the zone are counted and left out.
std::variant<Zone, ZoneFailure> make_zone(const std::vector<ZoneRecord>& records,
                                          const std::optional<NameKey>& expected);

/// Reads a zone file's text. Without `expected` the zone's name is that of its SOA, and `guess`
/// (from the file's name) completes relative names.
std::variant<Zone, BadZone> read_zone(std::string_view text, const std::string& file,
                                      const std::optional<NameKey>& expected);

/// The zone's name as a file's name tells it: "example.com.zone" -> example.com., "root.zone" ->
/// the root.
NameKey name_of_file(std::string_view file);

/// All records of a zone file's text, or the first thing wrong with it. `origin` completes relative
/// names until the text has an $ORIGIN. $INCLUDE and $GENERATE are refused.
std::variant<std::vector<ZoneRecord>, ZoneFailure> scan_zone(std::string_view text,
                                                             const NameKey& origin);

// The planner's input: a folder of zone files, with or without zones.json.

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
