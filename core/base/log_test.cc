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

} // namespace
} // namespace reprise
