#pragma once
// A draft as zone file text.

#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/observations.hh"

#include <string>

namespace reprise::zonebuilder {

enum class Dnssec : std::uint8_t { kKeep, kStrip };

/// All records, a line each, with absolute names; what was made up has a comment that says why.
std::string zone_text(const Draft& zone, const Observations& seen, Dnssec dnssec);

/// Records of a type are there for DNSSEC alone.
bool is_dnssec(std::uint16_t type);

} // namespace reprise::zonebuilder
