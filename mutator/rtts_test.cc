#include "core/base/error.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

using ::testing::HasSubstr;

// Cells that are left out of the text form take their defaults.
constexpr const char* kTrace = "#reprise-text 1\n"
                               "time\tsource\tname\ttype\trtt\n";

std::string row(const std::string& time, const std::string& source, const std::string& rtt) {
    return time + "\t" + source + "\twww.example.org.\tA\t" + rtt + "\n";
}

class RttsTest : public ::testing::Test {
protected:
    int run(const std::string& rows, const std::string& rules = "") {
        std::vector<std::string> words{
            "mutate", folder_.file("trace.txt"), "-o", folder_.file("rtts.tsv"), "--to", "rtts"};
        std::ofstream(folder_.file("trace.txt")) << kTrace << rows;
        if (!rules.empty()) {
            std::ofstream(folder_.file("rules")) << rules;
            words.insert(words.end(), {"--rules", folder_.file("rules")});
        }
        return run_words(words);
    }

    [[nodiscard]] std::string table() const { return file_text(folder_.file("rtts.tsv")); }

    TemporaryFolder folder_;
};

TEST_F(RttsTest, TellsEverySourceOnce) {
    EXPECT_EQ(run(row("1", "192.0.2.7", "40") + row("2", "2001:db8::7", "7") +
                  row("3", "192.0.2.7", "40") + row("4", "192.0.2.8", "-")),
              0);
    EXPECT_EQ(table(), "# source\trtt_ms\n192.0.2.7\t40\n2001:db8::7\t7\n");
}

TEST_F(RttsTest, TheFirstOfSeveralCountsAndTheirNumberIsTold) {
    testing::internal::CaptureStdout(); // where logs go in tests
    EXPECT_EQ(run(row("1", "192.0.2.7", "40") + row("2", "192.0.2.7", "50") +
                  row("3", "192.0.2.7", "60") + row("4", "192.0.2.8", "5")),
              0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(),
                HasSubstr("1 sources have several round trips; the first of each counts"));
    EXPECT_THAT(table(), HasSubstr("192.0.2.7\t40\n"));
}

TEST_F(RttsTest, RulesChangeTheTraceBefore) {
    EXPECT_EQ(run(row("1", "192.0.2.7", "40") + row("2", "192.0.2.8", "-"),
                  "[[rule]]\nkind = 'drop'\nwhere.source = '192.0.2.7'\n"
                  "[[rule]]\nkind = 'class'\nrtt = 9\n"),
              0);
    EXPECT_EQ(table(), "# source\trtt_ms\n192.0.2.8\t9\n");
}

TEST_F(RttsTest, ATraceWithoutClassesIsAnError) {
    try {
        run(row("1", "192.0.2.7", "-"));
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("none of the 1 queries carries"));
        EXPECT_THAT(error.what(), HasSubstr("with the column rtt"));
    }
}

} // namespace
} // namespace reprise::mutator
