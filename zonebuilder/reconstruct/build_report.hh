#pragma once
// build.json: what the zones were built from, and all that was chosen, dropped and made up.

#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/complete.hh"
#include "zonebuilder/reconstruct/hierarchy.hh"
#include "zonebuilder/reconstruct/observations.hh"

#include <string>
#include <vector>

namespace reprise::zonebuilder {

/// Everything that build.json tells of; all of it outlives the call.
struct BuildReport {
    const CaptureCounts& counts;
    const Observations& seen;
    const Hierarchy& hierarchy;
    const Completed& completed;
    const std::vector<std::string>& files; ///< of the zones
};

std::string build_json(const BuildReport& report);

/// For people: sizes, and the first few of what is missing.
std::string build_summary(const BuildReport& report);

} // namespace reprise::zonebuilder
