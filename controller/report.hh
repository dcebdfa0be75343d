#pragma once
#include "controller/controller.hh"
#include "core/wire/counts.hh"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise::controller {

/// The controller's account of a run; controller.json, docs/formats.md.
struct Report {
    bool clean = false;
    std::vector<std::string> because;
    std::vector<std::string> warnings;
    Counts counts;                                ///< summed over the queriers
    std::map<std::string, std::uint64_t> skipped; ///< by reason, before any querier
    std::uint64_t handed = 0;
    std::uint64_t lost = 0;
    std::string json;

    /// All reasons in one line.
    [[nodiscard]] std::string because_text() const;
};

/// Compiles the account; checks that every query read ended in exactly one way.
Report compile_report(const Options& options, const FeedState& feed, const tree::Children& children,
                      const Outcome& outcome, std::uint64_t handed);

/// Whether a folder holds the report of a run whose queries were sent; those stay.
bool holds_run(const std::string& folder);

/// Seconds left for the progress line, `played` after the start: exact once the trace was read to
/// its end, before that from the share of it that was read; "unknown" where neither is known (a
/// pipe).
std::string left_text(const Options& options, const FeedState& feed, Nanoseconds played);

// What the queriers' sums say of a run as a whole.

struct Verdict {
    std::vector<std::string> because;  ///< why the run is not clean
    std::vector<std::string> warnings; ///< what makes it no less clean
};

/// Pure. `late_ms`: what Counts::sent_late was counted by.
Verdict judge_counts(const Counts& counts, double late_ms);

} // namespace reprise::controller
