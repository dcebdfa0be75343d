#pragma once
// Zone text -> records -> what the planner keeps of a zone.

#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
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

} // namespace reprise::zonebuilder
