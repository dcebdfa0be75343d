#include "core/base/error.hh"
#include "mutator/synth/names.hh"
#include "mutator/testing/support.hh"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

namespace reprise::mutator {
namespace {

using namespace std::string_view_literals;

TEST(NameList, WireForm) {
    NameList names;
    EXPECT_TRUE(names.add("www.Example.com"));
    EXPECT_TRUE(names.add("net."));
    EXPECT_EQ(names.size(), 2U);
    EXPECT_EQ(names.wire(0), "\3www\7Example\3com"sv);
    EXPECT_EQ(names.wire(1), "\3net"sv);
}

TEST(NameList, TheRootAndEscapesAreNames) {
    NameList names;
    for (const char* const line : {".", "2,.", "a\\.b\\044."}) {
        EXPECT_TRUE(add_line(line, names));
    }
    EXPECT_FALSE(add_line("x,y.example.", names));
    ASSERT_EQ(names.size(), 3U);
    EXPECT_EQ(names.wire(0), "");
    EXPECT_EQ(names.wire(1), "");
    EXPECT_EQ(names.wire(2), "\4a.b,"sv);
}

TEST(NameList, RefusesWhatIsNoName) {
    NameList names;
    for (const std::string& bad :
         {std::string(), std::string("a..b"), std::string(".a"), std::string("a.."),
          std::string("a b"), std::string("a,b"), std::string("\"a\""), std::string("\xc3\xbc.de"),
          std::string(64, 'a') + ".com", std::string("a\\")}) {
        EXPECT_FALSE(names.add(bad)) << bad;
    }
    std::string longest;
    while (longest.size() < 250) {
        longest += "a.";
    }
    EXPECT_TRUE(names.add(longest + "a"));
    EXPECT_FALSE(names.add(longest + "aaaaaaaa"));
    EXPECT_EQ(names.size(), 1U);
    EXPECT_LE(names.wire(0).size(), 254U);
}

TEST(NameList, LinesAndRanks) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("list"))
        << "\xef\xbb\xbf"
        << "1,google.com\r\n\n# more\n  2,b.example.  \nc.example\nno name\n4,\nlast.example";
    const NameList names = load_names(folder.file("list"));
    ASSERT_EQ(names.size(), 4U);
    EXPECT_EQ(names.wire(0), "\6google\3com"sv) << "no byte order mark";
    EXPECT_EQ(names.wire(1), "\1b\7example"sv);
    EXPECT_EQ(names.wire(3), "\4last\7example"sv);
}

TEST(NameList, UnusableFilesAreUsageErrors) {
    const TemporaryFolder folder;
    EXPECT_THROW(load_names(folder.file("none")), UsageError);
    std::ofstream(folder.file("empty")) << "# nothing\n";
    EXPECT_THROW(load_names(folder.file("empty")), UsageError);
    std::ofstream(folder.file("cut.gz")) << "\x1f\x8b\x08\x01\x02";
    EXPECT_THROW(load_names(folder.file("cut.gz")), UsageError);
}

} // namespace
} // namespace reprise::mutator
