// Text of other tools: LDplayer's fsdb, dnsperf's query files.
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Buffer kWwwA = hex("0000 0000 0001 0000 0000 0000 03 777777 00 0001 0001");

TEST(Fsdb, SixColumnsAsLdplayersManualHasThem) {
    for (const std::string header : {"#fsdb time srcip qname qclass qtype protocol\n", "",
                                     "#fsdb -F t time source_ip query_name query_class "
                                     "query_type protocol\n",
                                     "#fsdb -F S time:d srcip:a name:a class:a type:a proto:a\n"}) {
        const bool tabs = header.find("-F t") != std::string::npos;
        std::string rows = "1475762100.25 192.0.2.1 www. IN A udp\n"
                           "1475762101 2001:db8::1 www IN AAAA tcp\n";
        std::ranges::replace(rows, ' ', tabs ? '\t' : ' ');
        const ReadAll read = read_content(header + rows + "# | a comment\n");
        ASSERT_EQ(read.queries.size(), 2U) << header << read.refused << read.trouble;
        EXPECT_EQ(read.trouble, "");
        EXPECT_EQ(read.description, "fsdb");
        EXPECT_EQ(read.queries[0].message, kWwwA);
        EXPECT_EQ(read.queries[0].query.time, 1'475'762'100'250'000'000);
        EXPECT_EQ(read.queries[0].query.source.text(), "192.0.2.1:10000");
        EXPECT_EQ(read.queries[0].query.destination.text(), "192.0.2.53:53");
        EXPECT_EQ(read.queries[1].query.transport, Transport::kTcp);
        EXPECT_EQ(read.queries[1].message[1], 1) << "ids count";
    }
}

TEST(Fsdb, OtherColumnsAndNumbers) {
    const ReadAll read =
        read_content("#fsdb protocol msg_id qtype qclass qname ttl edns_do edns_udp_size srcport "
                     "srcip dstip time\n"
                     "17 4660 1 1 www. 64 1 1232 5353 192.0.2.1 198.51.100.7 5.5\n");
    ASSERT_EQ(read.queries.size(), 1U) << read.refused << read.trouble;
    EXPECT_EQ(read.description, "fsdb (not read: ttl)");
    EXPECT_EQ(read.queries[0].message,
              hex("1234 0000 0001 0000 0000 0001 03 777777 00 0001 0001 00 "
                  "0029 04d0 0000 8000 0000"));
    EXPECT_EQ(read.queries[0].query.source.text(), "192.0.2.1:5353");
    EXPECT_EQ(read.queries[0].query.destination.text(), "198.51.100.7:53");
}

TEST(Fsdb, WhatIsWrongIsNamed) {
    const std::string header = "#fsdb time srcip qname class type protocol\n";
    const std::string good = "1 192.0.2.1 www. IN A udp\n";
    const auto trouble = [&](const std::string& row) {
        const ReadAll read = read_content(header + good + row);
        EXPECT_EQ(read.queries.size(), 1U);
        EXPECT_THAT(read.trouble, StartsWith("line 3, "));
        EXPECT_THAT(read.trouble, HasSubstr("(1 query was good)"));
        return read.trouble;
    };
    EXPECT_THAT(trouble("1 192.0.2.1 www. IN AAAB udp\n"), HasSubstr("did you mean AAAA?"));
    EXPECT_THAT(trouble("1 192.0.2.1 www. IN A\n"), HasSubstr("does not have the 6 columns"));
    EXPECT_THAT(trouble("1 192.0.2.1 www. IN A udp x\n"), HasSubstr("does not have the 6 columns"));
    EXPECT_THAT(trouble("x 192.0.2.1 www. IN A udp\n"), HasSubstr("column time"));
    EXPECT_THAT(trouble("1 192.0.2.1 www. IN A 99\n"), HasSubstr("column transport"));
    EXPECT_THAT(read_content("#fsdb time qname type\n").refused, HasSubstr("no column srcip"));
    EXPECT_THAT(read_content("#fsdb time ts srcip qname type\n").refused, HasSubstr("twice"));
}

TEST(Dnsperf, NamesAndTypes) {
    const ReadAll read = read_content("; a comment\n\nwww A\nwww.\tAAAA\r\n  . NS\nx TYPE65\n;\n");
    ASSERT_EQ(read.queries.size(), 4U) << read.refused << read.trouble;
    EXPECT_EQ(read.trouble, "");
    EXPECT_EQ(read.description, "dnsperf queries (times and source invented)");
    EXPECT_EQ(read.queries[0].message, hex("0000 0100 0001 0000 0000 0000 03 777777 00 0001 0001"));
    EXPECT_EQ(read.queries[2].message, hex("0002 0100 0001 0000 0000 0000 00 0002 0001"));
    EXPECT_EQ(read.queries[3].query.time, 1'704'067'200 * kSecond + 3 * kMillisecond);
    EXPECT_EQ(read.queries[3].query.source.text(), "198.18.0.1:10003");
    EXPECT_EQ(read.queries[3].query.destination.text(), "192.0.2.53:53");
}

TEST(Dnsperf, AByteOrderMarkIsNoPartOfTheName) {
    const ReadAll read = read_content("\xef\xbb\xbfwww. A\n");
    ASSERT_EQ(read.queries.size(), 1U) << read.refused << read.trouble;
    EXPECT_EQ(read.queries[0].message, hex("0000 0100 0001 0000 0000 0000 03 777777 00 0001 0001"));
}

TEST(Dnsperf, BlanksFirst) {
    for (const char* const blanks : {" \n", "\t\r\n\n", "   \n; a comment of some length\n \n"}) {
        EXPECT_EQ(read_content(std::string(blanks) + "www A\n").queries.size(), 1U) << blanks;
    }
}

TEST(Dnsperf, ManyCommentsFirst) {
    std::string comments;
    while (comments.size() < 900'000) {
        comments += "; a license, say\n\n# and more\n";
    }
    EXPECT_EQ(read_content(comments + "www A\n").queries.size(), 1U);
    EXPECT_EQ(read_content(comments + comments + "www A\n").queries.size(), 0U); // not endless
}

TEST(Dnsperf, WhatIsWrongIsNamed) {
    EXPECT_THAT(
        read_content("www A\nwww AAAB\n").trouble,
        HasSubstr("line 2, column type: \"AAAB\" is not a type; did you mean AAAA? (1 query"));
    EXPECT_THAT(read_content("www A\nwww\n").trouble, HasSubstr("line 2, this is not a name and"));
    EXPECT_THAT(read_content("www A\nwww A A\n").trouble, HasSubstr("line 2, this is not a name"));
    EXPECT_THAT(read_content("www A\na..b A\n").trouble, HasSubstr("column name"));
    EXPECT_THAT(read_content("Some prose that is no trace.\n").refused,
                HasSubstr("is not a packet capture"));
    EXPECT_THAT(read_content("two words\n").refused, HasSubstr("is not a packet capture"));
}

} // namespace
} // namespace reprise::trace
