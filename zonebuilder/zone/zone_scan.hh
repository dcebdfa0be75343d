#pragma once
// Zone text -> records. The only user of libzscanner.

#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reprise::zonebuilder {

struct ScanFailure {
    std::uint64_t line = 0;
    std::string why;
};

/// All records of a zone file's text, or the first thing wrong with it. `origin` completes relative
/// names until the text has an $ORIGIN. $INCLUDE and $GENERATE are refused.
std::variant<std::vector<ZoneRecord>, ScanFailure> scan_zone(std::string_view text,
                                                             const NameKey& origin);

} // namespace reprise::zonebuilder
