#include "core/dns/words.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace reprise {
namespace {

TEST(DnsWords, EveryNumberIsReadAsItIsWritten) {
    for (const WordTable* table :
         {&type_words(), &class_words(), &option_words(), &rcode_words()}) {
        for (unsigned number = 0; number < (table == &rcode_words() ? 4096U : 65'536U); ++number) {
            std::string out;
            table->append(out, static_cast<std::uint16_t>(number));
            ASSERT_EQ(table->number(out), number) << out;
        }
    }
    EXPECT_EQ(type_words().number("aaaa"), 28);
    EXPECT_EQ(type_words().number("type28"), 28);
    EXPECT_EQ(opcode_words().number("3"), 3);
    for (const char* bad : {"", "TYPE", "TYPE65536", "TYPE-1", "28", "AAAAA", "TYPE1 "}) {
        EXPECT_FALSE(type_words().number(bad)) << bad;
    }
    EXPECT_FALSE(opcode_words().number("16"));
}

TEST(DnsWords, TheNearest) {
    EXPECT_EQ(type_words().nearest("AAAB"), "AAAA");
    EXPECT_EQ(type_words().nearest("dnskei"), "DNSKEY");
    EXPECT_EQ(type_words().nearest("NSEC3PARMA"), "NSEC3PARAM");
    EXPECT_EQ(type_words().nearest("xyzzy"), "");
    EXPECT_EQ(type_words().nearest(std::string(1'000, 'A')), "");
}

TEST(DnsWords, BothWays) {
    EXPECT_EQ(type_name(28), "AAAA");
    EXPECT_EQ(type_name(65'280), "TYPE65280");
    EXPECT_EQ(type_number("ds"), 43);
    EXPECT_EQ(type_number("TYPE65280"), 65'280);
    EXPECT_FALSE(type_number("TYPE65536"));
    EXPECT_FALSE(type_number("TYPE"));
    EXPECT_EQ(rcode_name(3), "NXDOMAIN");
    EXPECT_EQ(rcode_name(99), "RCODE99");
    EXPECT_EQ(opcode_name(5), "UPDATE");
}

} // namespace
} // namespace reprise
