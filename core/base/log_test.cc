#include "core/base/log.hh"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace reprise {
namespace {

std::string printed(std::string_view text) {
    testing::internal::CaptureStderr();
    print_error("reprise-x", text);
    return testing::internal::GetCapturedStderr();
}

TEST(Complaint, EndsWithItsHint) {
    EXPECT_EQ(complaint("got 6; of 7; copy it again").what, "got 6; of 7");
    EXPECT_EQ(complaint("got 6; of 7; copy it again").hint, "copy it again");
    EXPECT_EQ(complaint("it hangs").what, "it hangs");
    EXPECT_EQ(complaint("it hangs").hint, "");
}

TEST(PrintError, OneLineForPeople) {
    unsetenv("REPRISE_ERRORS");
    EXPECT_EQ(printed("no \"x\"; give one"), "reprise-x: error: no \"x\"; give one\n");
}

TEST(PrintError, OneMoreForWhoeverStartedIt) {
    setenv("REPRISE_ERRORS", "json", 1);
    EXPECT_EQ(printed("no \"x\"; give one"),
              "reprise-x: error: no \"x\"; give one\n"
              "{\"error\":\"no \\\"x\\\"\",\"hint\":\"give one\"}\n");
    unsetenv("REPRISE_ERRORS");
}

TEST(LogValue, NeverCommandsATerminal) {
    EXPECT_EQ(log_value("a\x1b[2Jb"), "a\\x1b[2Jb");
    EXPECT_EQ(log_value("a b\x7f\n"), "\"a b\\x7f \"");
    EXPECT_EQ(log_value("\xc2\x9b"), "\\x9b");
    EXPECT_EQ(log_value("\xc2\xb5s"), "\xc2\xb5s"); // µs
    unsetenv("REPRISE_ERRORS");
    EXPECT_EQ(printed("no \x1b]0;x\a"), "reprise-x: error: no \\x1b]0;x\\x07\n");
}

} // namespace
} // namespace reprise
