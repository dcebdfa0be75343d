#include "core/base/error.hh"
#include "mutator/synth/names.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace reprise::mutator {
namespace {

using ::testing::ElementsAre;

TEST(ALabels, SamplesOfRfc3492) {
    EXPECT_EQ(to_a_label("他们为什么不说中文"), "xn--ihqwcrb4cv8a8dqg056pqjye");
    EXPECT_EQ(to_a_label("почемужеонинеговорятпорусски"), "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l");
    EXPECT_EQ(to_a_label("ひとつ屋根の下2"), "xn--2-u9tlzr9756bt3uc0v");
}

TEST(ALabels, DelegatedDomains) {
    EXPECT_EQ(to_a_label("рф"), "xn--p1ai");
    EXPECT_EQ(to_a_label("中国"), "xn--fiqs8s");
    EXPECT_EQ(to_a_label("한국"), "xn--3e0b707e");
    EXPECT_EQ(to_a_label("vermögensberatung"), "xn--vermgensberatung-pwb");
}

TEST(ALabels, AsciiBecomesLowerCase) { EXPECT_EQ(to_a_label("COM"), "com"); }

TEST(ALabels, RefusesWhatIsNoLabel) {
    EXPECT_FALSE(to_a_label(""));
    EXPECT_FALSE(to_a_label("\xff\xfe"));
    EXPECT_FALSE(to_a_label("\xd1"));
    EXPECT_FALSE(to_a_label("\xe4\x41\x41"));
    EXPECT_FALSE(to_a_label(std::string(64, 'a')));
    EXPECT_TRUE(to_a_label(std::string(63, 'a')));
}

TEST(Tlds, LastLabelsOfTheIcannSection) {
    std::istringstream in("// ===BEGIN ICANN DOMAINS===\n"
                          "// ac : a comment with words\n"
                          "ac\ncom.ac\n\n*.ck\n!www.ck\ncom\n  бг // trailing\n"
                          "// ===END ICANN DOMAINS===\n"
                          "blogspot.private\n");
    EXPECT_THAT(read_tlds(in), ElementsAre("com", "ac", "ck", "xn--90ae"));
}

TEST(Tlds, PlainListInUpperCase) {
    std::istringstream in("# Version 1\nAAA\nNET\nXN--P1AI\r\nCOM\nbad_name\n");
    EXPECT_THAT(read_tlds(in), ElementsAre("com", "net", "aaa", "xn--p1ai"));
}

TEST(Tlds, UnusableFilesAreUsageErrors) {
    const TemporaryFolder folder;
    EXPECT_THROW(load_tlds(folder.file("none")), UsageError);
    std::ofstream(folder.file("empty")) << "// nothing\n";
    EXPECT_THROW(load_tlds(folder.file("empty")), UsageError);
}

} // namespace
} // namespace reprise::mutator
