// Files in the text form: what people and their editors do to them.
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

const std::string kHeader = "#reprise-text 1\n"
                            "time\tsource\tport\tdestination\tdport\ttransport\tconnection\tid\tfla"
                            "gs\topcode\tname\tclass\t"
                            "type\tedns\tdo\tversion\toptions\trtt\tidle\thex\n";
const std::string kRow = "1.5\t192.0.2.1\t1024\t198.51.100.1\t53\tudp\t-\t4660\trd\tQUERY\t"
                         "www.example.\tIN\tAAAA\t-\t-\t-\t-\t-\t-\t-\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
}

TEST(TextSource, TheHeaderIsAsDocumented) { EXPECT_EQ(as_text({}), kHeader); }

TEST(TextSource, FewColumnsInAnyOrder) {
    const ReadAll read = read_content("#reprise-text 1\n"
                                      "type\tname\tsource\ttime\n"
                                      "A\texample.com\t192.0.2.9\t10\n"
                                      "TYPE99\t.\t2001:db8::9\t10.25\n");
    ASSERT_EQ(read.queries.size(), 2U) << read.refused << read.trouble;
    const OwnQuery& first = read.queries[0];
    EXPECT_EQ(first.query.time, 10 * kSecond);
    EXPECT_EQ(first.query.source.text(), "192.0.2.9:0");
    EXPECT_EQ(first.query.destination.text(), "192.0.2.53:53");
    EXPECT_EQ(first.query.transport, Transport::kUdp);
    EXPECT_EQ(first.message,
              hex("0000 0000 0001 0000 0000 0000 07 6578616d706c65 03 636f6d 00 0001 0001"));
    EXPECT_EQ(read.queries[1].query.destination.text(), "[2001:db8::53]:53");
    EXPECT_EQ(read.queries[1].message, hex("0000 0000 0001 0000 0000 0000 00 0063 0001"));
}

TEST(TextSource, ANameWithAHashIsNoComment) {
    OwnQuery query = usual(hex("0000 0000 0001 0000 0000 0000 03 236223 00 0001 0001"));
    EXPECT_THAT(as_text({query}), HasSubstr("\t\\035b#.\t"));
    const std::string header = "#reprise-text 1\nname\ttime\tsource\ttype\n# a comment\n#\ta\n";
    const ReadAll escaped = read_content(header + "\\035b#.\t1\t192.0.2.9\tA\n");
    ASSERT_EQ(escaped.queries.size(), 1U) << escaped.trouble;
    EXPECT_EQ(escaped.queries[0].message, query.message);
    EXPECT_THAT(read_content(header + "#b#.\t1\t192.0.2.9\tA\n").trouble,
                HasSubstr("line 5, this is a row whose name begins with #"));
    EXPECT_EQ(read_content(kHeader + "#" + kRow + kRow).queries.size(), 1U); // a row left out
}

TEST(TextSource, HexAloneIsEnough) {
    const std::string bytes = "123401000001000000000000"
                              "0000020001"
                              "ff";
    const ReadAll read =
        read_content("#reprise-text 1\nhex\ttime\tsource\n" + bytes + "\t10\t192.0.2.9\n");
    ASSERT_EQ(read.queries.size(), 1U) << read.refused << read.trouble;
    EXPECT_EQ(read.queries[0].message, hex(bytes));
}

TEST(TextSource, LinesOfOtherSystemsAndComments) {
    const std::string text = "\xef\xbb\xbf" + kHeader + "# a comment\n\n" + kRow + kRow;
    std::string returns;
    for (const char c : text) {
        returns += c == '\n' ? "\r\n" : std::string(1, c);
    }
    for (const std::string& content : {text, returns}) {
        const ReadAll read = read_content(content);
        EXPECT_EQ(read.queries.size(), 2U) << read.refused;
        EXPECT_EQ(read.trouble, "");
    }
    EXPECT_EQ(read_content(kHeader).queries.size(), 0U);
    EXPECT_EQ(read_content(kHeader).trouble, "");
}

/// A row that is cut in its last cell may be a good row with another value.
TEST(TextSource, WithoutItsLastLineFeedItIsCut) {
    const std::string text =
        "#reprise-text 1\ntime\tsource\ttype\tname\n1\t192.0.2.1\tA\ta.example\n";
    ASSERT_EQ(read_content(text).trouble, "");
    const size_t rows = text.find("1\t192");
    for (size_t size = text.find('\n') + 1; size < text.size(); ++size) {
        const ReadAll read = read_content(text.substr(0, size));
        EXPECT_TRUE(read.queries.empty()) << size;
        EXPECT_EQ(read.refused.empty() && read.trouble.empty(), size == rows) << size;
    }
    const ReadAll cut = read_content(kHeader + kRow + "# a comm");
    EXPECT_EQ(cut.queries.size(), 1U);
    EXPECT_EQ(
        cut.trouble,
        "line 4, the trace is cut or corrupt: its last line has no line feed (1 query was good)");
}

TEST(TextSource, ClosesComeOnlyWhereAsked) {
    const std::string text = kHeader + replaced(kRow, "udp\t-", "tcp\t3") +
                             "2\t192.0.2.1\t1024\t198.51.100.1\t53\ttcp\t3\tclose\t-\t-\t-\t-\t-\t-"
                             "\t-\t-\t-\t-\t-\t-\n" +
                             kRow;
    const ReadAll with = read_content(text, true);
    ASSERT_EQ(with.queries.size(), 3U) << with.trouble;
    EXPECT_TRUE(with.queries[1].message.empty());
    EXPECT_EQ(with.queries[1].query.connection, 3U);
    EXPECT_EQ(read_content(text, false).queries.size(), 2U);
}

TEST(TextSource, TheGreatestConnection) {
    const std::string text = kHeader + replaced(kRow, "udp\t-", "tcp\t281474976710655");
    const ReadAll read = read_content(text);
    ASSERT_EQ(read.queries.size(), 1U) << read.trouble;
    EXPECT_EQ(read.queries[0].query.connection, (1ULL << 48U) - 1);
}

/// A cell of the usual row changed, and what is said about it.
TEST(TextSource, EveryCellThatIsWrongIsNamed) {
    struct Case {
        std::string from;
        std::string to;
        std::string error;
    };

    const std::vector<Case> cases{
        {"1.5", "yesterday", R"(column time: "yesterday" is not a time in seconds)"},
        {"1.5", "-", "column time: - where a time is needed"},
        {"192.0.2.1\t", "192.0.2.300\t", R"(column source: "192.0.2.300" is not an address)"},
        {"192.0.2.1\t", "\t", "column source: - where the client's address is needed"},
        {"1024", "65536", R"(column port: "65536" is not a number from 0 to 65535)"},
        {"198.51.100.1", "root", R"(column destination: "root" is not an address)"},
        {"53", "x", "column dport"},
        {"udp", "upd", R"(column transport: "upd" is not a transport (udp, tcp,)"},
        {"udp", "upd", "did you mean udp?"},
        {"udp", "tpc", "did you mean tcp?"},
        {"\t-\t4660", "\tone\t4660", "column connection"},
        {"\t-\t4660", "\t281474976710656\t4660",
         R"(column connection: "281474976710656" is not the number of a connection, below 2^48)"},
        {"4660", "0x1234", R"(column id: "0x1234" is not a number from 0 to 65535)"},
        {"rd", "rd;ad", R"(column flags: "rd;ad" is not a list of flags)"},
        {"QUERY", "NOTIFI", "column opcode: \"NOTIFI\" is not an opcode"},
        {"QUERY", "NOTIFI", "did you mean NOTIFY?"},
        {"www.example.", "www..example.", R"(column name: "www..example." has an empty label)"},
        {"www", std::string(64, 'w'), "has a label of over 63 bytes"},
        {"www.example.", R"(www\999.)", "has a broken escape"},
        {"www.example.", "-", "column name: - where a name is needed"},
        {"IN", "INN",
         R"(column class: "INN" is not a class (IN, CH, ... or CLASS1); did you mean IN?)"},
        {"AAAA", "AAAB", R"(column type: "AAAB" is not a type; did you mean AAAA?)"},
        {"AAAA", "", "column type: - where a type is needed"},
        {"AAAA\t-", "AAAA\tbig", "column edns"},
        {"AAAA\t-\t-", "AAAA\t1232\tyes", R"(column do: "yes" is not 1, 0 or -)"},
        {"AAAA\t-\t-", "AAAA\t-\t1", "column do: 1 needs EDNS"},
        {"AAAA\t-\t-\t-", "AAAA\t-\t-\t3", "column version: 3 needs EDNS"},
        {"AAAA\t-\t-\t-", "AAAA\t1232\t-\t256", "column version"},
        {"AAAA\t-\t-\t-\t-", "AAAA\t1232\t-\t-\tNSID", R"(column options: "NSID" is not a list)"},
        {"AAAA\t-\t-\t-\t-", "AAAA\t-\t-\t-\tNSID:", "column options: \"NSID:\" needs EDNS"},
        {"-\t-\t-\n", "fast\t-\t-\n", "column rtt"},
        {"-\t-\n", "-1\t-\n", "column idle"},
        {"\t-\n", "\tabc\n", "column hex: \"abc\" is not a message of 12 to 65535 bytes"},
        {"\t-\n", "\t0011\n", "column hex"},
        {"\tudp", "udp", "the row has 19 columns, the header 20"},
        {"\tudp", "\t\tudp", "the row has 21 columns, the header 20"},
        {kRow, "4660\n", "the row has 1 columns, the header 20"},
        {"4660", "close", "column id: a close needs a transport with connections, not udp"},
        {"udp\t-\t4660", "tcp\t1\tclose", "column flags: a close has no message"},
        {"1024", std::string("\x01\xff"), R"("\x01\xff" is not)"},
        {"www", std::string(2'000'000, 'w'), "the line is longer than 1048576 bytes"},
    };
    for (const Case& test : cases) {
        const ReadAll read = read_content(
            fmt::format("{}{}{}{}", kHeader, kRow, kRow, replaced(kRow, test.from, test.to)));
        EXPECT_EQ(read.queries.size(), 2U) << test.error;
        EXPECT_THAT(read.trouble, HasSubstr(test.error));
        EXPECT_THAT(read.trouble, HasSubstr("line 5, "));
        EXPECT_THAT(read.trouble, HasSubstr("(2 queries were good)"));
    }
}

TEST(TextSource, ColumnsThatContradictHexAreNamed) {
    const Buffer message = hex("1234 0100 0001 0000 0000 0000 03 777777 00 001c 0001 ff");
    const std::string text = as_text({usual(message)});
    EXPECT_EQ(read_content(text).trouble, "");
    const std::vector<std::pair<std::string, std::string>> edits{
        {"\t4660\t", "\t4661\t"},
        {"\trd\t", "\tcd\t"},
        {"QUERY", "STATUS"},
        {"\twww.\t", "\tWWW.\t"},
        {"\tIN\t", "\tCH\t"},
        {"\tAAAA\t", "\tA\t"},
        {"AAAA\t-", "AAAA\t1232"},
        {"AAAA\t-\t-", "AAAA\t-\t1"},
        {"AAAA\t-\t-\t-\t-", "AAAA\t-\t-\t-\tNSID:"}};
    for (const auto& [from, to] : edits) {
        const ReadAll read = read_content(replaced(text, from, to));
        EXPECT_THAT(read.trouble, HasSubstr("contradicts hex, which says")) << to;
        EXPECT_THAT(read.trouble, HasSubstr("line 3, column ")) << to;
    }
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\t4660\trd\tQUERY\twww.\tIN\tAAAA\t", "\t-\t-\t-\t-\t-\t-\t"},
             {"\twww.\t", "\t-\t"},
             {"\tAAAA\t", "\ttype28\t"}}) {
        const ReadAll read = read_content(replaced(text, from, to));
        ASSERT_EQ(read.queries.size(), 1U) << read.trouble;
        EXPECT_EQ(read.queries[0].message, message);
    }
}

TEST(TextSource, WhatCannotBeOpened) {
    EXPECT_THAT(read_content("#reprise-text 2\n" + kRow).refused,
                HasSubstr("line 1: \"#reprise-text 2\" is not a version of the text form"));
    EXPECT_THAT(read_content("#reprise-text 10\n" + kRow).refused, HasSubstr("line 1"));
    EXPECT_THAT(read_content("#reprise-text").refused, HasSubstr("line 1"));
    EXPECT_THAT(read_content("#reprise-text 1").refused, HasSubstr("columns are missing"));
    EXPECT_THAT(read_content(replaced(kHeader, "source", "sourze")).refused,
                HasSubstr("line 2: \"sourze\" is not a column, did you mean source?"));
    EXPECT_THAT(read_content(replaced(kHeader, "\tport\t", "\tsource\t")).refused,
                HasSubstr("line 2: column source is there twice"));
    EXPECT_THAT(read_content("#reprise-text 1\ntime\tname\ttype\n").refused,
                HasSubstr("there is no column source"));
    EXPECT_THAT(read_content("#reprise-text 1\ntime\tsource\tname\n").refused,
                HasSubstr("there is no column type"));
    EXPECT_THAT(read_content("#reprise-text 1\ntime source name\n").refused,
                HasSubstr("is not a column"));
}

/// A message of the largest size in options, and one byte more.
TEST(TextSource, TheLargestMessage) {
    const auto with = [](size_t padding) {
        return kHeader + replaced(kRow, "AAAA\t-\t-\t-\t-",
                                  "AAAA\t1232\t-\t-\tPADDING:" + std::string(2 * padding, '0'));
    };
    const size_t others = 12 + 17 + 11 + 4;
    const ReadAll most = read_content(with(65'535 - others));
    ASSERT_EQ(most.queries.size(), 1U) << most.trouble;
    EXPECT_EQ(most.queries[0].message.size(), 65'535U);
    EXPECT_EQ(as_text(most.queries).find('\n', kHeader.size()), as_text(most.queries).size() - 1);
    EXPECT_THAT(read_content(with(65'535 - others + 1)).trouble, HasSubstr("over 65535 bytes"));
}

/// Wherever a file is cut: rows before the cut are read, and nothing else is made up.
TEST(TextSource, CutAnywhere) {
    QueryMaker maker(5);
    std::vector<OwnQuery> queries(7);
    std::ranges::generate(queries, [&] { return maker.next(); });
    const std::string text = as_text(queries);
    for (size_t size = kHeader.size(); size < text.size(); ++size) {
        const ReadAll read = read_content(text.substr(0, size));
        const auto whole = static_cast<size_t>(
            std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), '\n') - 2);
        ASSERT_GE(read.queries.size(), whole);
        ASSERT_LE(read.queries.size(), whole + 1);
        for (size_t i = 0; i < whole; ++i) {
            ASSERT_TRUE(read.queries[i] == queries[i]);
        }
    }
}

} // namespace
} // namespace reprise::trace
