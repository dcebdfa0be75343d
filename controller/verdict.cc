#include "controller/verdict.hh"

#include "core/wire/counts.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

/// Of the queries sent. Where programs share a busy processor, one in a hundred is late, and the
/// first of a short run; where one in ten is, nothing can be said of times.
constexpr double kMostLate = 0.10;

std::string how_none_was_sent(const Counts& counts) {
    std::vector<std::string> ends;
    const auto add = [&](std::uint64_t count, const char* what) {
        if (count > 0) {
            ends.push_back(fmt::format("{} {}", count, what));
        }
    };
    add(counts.connection_failed, "failed with their connections");
    add(counts.send_failed, "could not be sent");
    add(counts.skipped, "were skipped");
    return fmt::format("no query reached the server: {}", fmt::join(ends, ", "));
}

void judge_lateness(Verdict& verdict, const Counts& counts, double late_ms) {
    const double share = static_cast<double>(counts.sent_late) / static_cast<double>(counts.sent);
    const std::string what =
        fmt::format("{} of {} queries ({:.3g}%) were sent over {:g} ms after their time",
                    counts.sent_late, counts.sent, share * 100, late_ms);
    (share > kMostLate ? verdict.because : verdict.warnings).push_back(what);
}

} // namespace

Verdict judge_counts(const Counts& counts, double late_ms) {
    Verdict verdict;
    if (counts.received > 0 && counts.sent == 0) {
        verdict.because.push_back(how_none_was_sent(counts));
    } else if (counts.sent > 0 && counts.answered == 0) {
        verdict.because.push_back(
            fmt::format("the server answered none of {} queries sent", counts.sent));
    }
    if (counts.sent_late > 0 && counts.sent > 0) {
        judge_lateness(verdict, counts, late_ms);
    }
    return verdict;
}

} // namespace reprise::controller
