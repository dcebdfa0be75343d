#pragma once
// Captures -> zones: what is seen, whom to believe, which zone it belongs to, what is missing.

#include "core/base/clock.hh"
#include "core/trace/feed.hh"
#include "zonebuilder/reconstruct/draft.hh"
#include "zonebuilder/reconstruct/hierarchy.hh"
#include "zonebuilder/reconstruct/observations.hh"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

struct CaptureOptions {
    std::vector<std::string> paths;
    std::vector<std::uint16_t> ports{53};
    Nanoseconds at = Observations::kFirst; ///< as Observations takes it
};

/// A response that answers nothing that was asked of the server.
struct Unasked {
    ServerId server = 0;
    Nanoseconds time = 0;
};

/// What was read, and what became of each response: `used` and those by reason are all of them.
struct CaptureCounts {
    std::uint64_t queries = 0;
    std::uint64_t answered = 0; ///< queries, each once
    std::uint64_t responses = 0;
    std::uint64_t without_query = 0; ///< used nevertheless
    std::uint64_t used = 0;
    std::map<std::string_view, std::uint64_t> unused; ///< by reason
    std::vector<Unasked> unasked;
    std::vector<ServerId> silent; ///< asked, but never heard
    std::vector<trace::Feed::File> files;
    trace::Counters reader;
};

/// Reads everything. Throws trace::TraceError where a capture cannot be opened.
CaptureCounts observe(const CaptureOptions& options, Observations& seen);

// build.json: what the zones were built from, and all that was chosen, dropped and made up.

/// Everything that is told of; all of it outlives the call.
struct BuildReport {
    const CaptureCounts& counts;
    const Observations& seen;
    const Hierarchy& hierarchy;
    const Completed& completed;
    const std::vector<std::string>& files; ///< of the zones
};

std::string build_json(const BuildReport& report);

/// zones.json, which `reprise zones plan` reads: the zones, who serves them, and who refused what.
std::string zones_json(const BuildReport& report);

/// For people: sizes, and the first few of what is missing.
std::string build_summary(const BuildReport& report);

// A draft as zone file text.

enum class Dnssec : std::uint8_t { kKeep, kStrip };

/// All records, a line each, with absolute names; what was made up has a comment that says why.
std::string zone_text(const Draft& zone, const Observations& seen, Dnssec dnssec);

} // namespace reprise::zonebuilder
