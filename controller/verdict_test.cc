#include "controller/controller.hh"
#include "core/wire/counts.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::controller {
namespace {

using Texts = std::vector<std::string>;

Counts counts(std::uint64_t received, std::uint64_t sent, std::uint64_t answered) {
    Counts out;
    out.received = received;
    out.sent = sent;
    out.answered = answered;
    return out;
}

Report judged(const Counts& counts, double late_ms) {
    Report report;
    report.counts = counts;
    judge_counts(report, late_ms);
    return report;
}

TEST(Verdict, OneAnswerIsEnough) {
    EXPECT_EQ(judged(counts(1000, 1000, 1), 100).because, Texts{});
    EXPECT_EQ(judged(counts(0, 0, 0), 100).because, Texts{});
}

TEST(Verdict, ARunWithoutAnswersIsNotClean) {
    EXPECT_EQ(judged(counts(20, 20, 0), 100).because,
              Texts{"the server answered none of 20 queries sent"});
}

TEST(Verdict, ARunThatSentNothingIsNotClean) {
    Counts none = counts(20, 0, 0);
    none.send_failed = 12;
    none.connection_failed = 5;
    none.skipped = 3;
    EXPECT_EQ(judged(none, 100).because,
              Texts{"no query reached the server: 5 failed with their connections, 12 could not be "
                    "sent, 3 were skipped"});
}

TEST(Verdict, AFewLateQueriesAreAWarningMoreAreNotClean) {
    Counts late = counts(1000, 1000, 900);
    EXPECT_EQ(judged(late, 100).warnings, Texts{});
    late.sent_late = 100;
    EXPECT_EQ(judged(late, 100).because, Texts{});
    EXPECT_EQ(judged(late, 100).warnings,
              Texts{"100 of 1000 queries (10%) were sent over 100 ms after their time"});
    late.sent_late = 101;
    EXPECT_EQ(judged(late, 2.5).warnings, Texts{});
    EXPECT_EQ(judged(late, 2.5).because,
              Texts{"101 of 1000 queries (10.1%) were sent over 2.5 ms after their time"});
}

} // namespace
} // namespace reprise::controller
