// Queries as rows of text and back.
#include "core/base/text.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/forms/text/columns.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)

const Buffer kHead = hex("1234 0100 0001 0000 0000");
const Buffer kQuestion = hex("03 777777 07 6578616d706c65 00 001c 0001");

std::string row(const OwnQuery& query) {
    std::string out;
    append_text_row(out, query.view());
    return out;
}

/// The row's cells from id on.
std::string message_cells(const Buffer& message) {
    const std::string text = row(usual(message));
    const std::string before = "1475762100.123456789\t192.0.2.1\t1024\t198.51.100.1\t53\tudp\t-\t";
    EXPECT_EQ(text.substr(0, before.size()), before);
    return text.substr(before.size(), text.size() - before.size() - 1);
}

Buffer plain() { return kHead + be16(0) + kQuestion; }

Buffer with_opt(const Buffer& opt) { return kHead + be16(1) + kQuestion + opt; }

TEST(TextForm, APlainQuery) {
    EXPECT_EQ(message_cells(plain()),
              "4660\trd\tQUERY\twww.example.\tIN\tAAAA\t-\t-\t-\t-\t-\t-\t-");
}

TEST(TextForm, EdnsWithOptions) {
    const Buffer opt =
        hex("00 0029 04d0 00 00 8000 0018 0003 0000 000a 0008 0011223344556677 fde9 0004 cafef00d");
    EXPECT_EQ(message_cells(with_opt(opt)),
              "4660\trd\tQUERY\twww.example.\tIN\tAAAA\t1232\t1\t0\t"
              "NSID:;COOKIE:0011223344556677;65001:cafef00d\t-\t-\t-");
    EXPECT_EQ(message_cells(with_opt(hex("00 0029 1000 00 01 0000 0000"))),
              "4660\trd\tQUERY\twww.example.\tIN\tAAAA\t4096\t0\t1\t-\t-\t-\t-");
}

/// What no column says makes the row keep the message in hex.
TEST(TextForm, MessagesThatColumnsCannotMake) {
    const Buffer opt = hex("00 0029 04d0 00 00 8000 0000");
    const std::vector<Buffer> odd{
        plain() + hex("00"),                                          // a byte behind it
        with_opt(opt) + hex("00"),                                    //
        hex("1234 0103 0001 0000 0000 0000") + kQuestion,             // an rcode
        hex("1234 8100 0001 0000 0000 0000") + kQuestion,             // a response
        hex("1234 0100 0000 0000 0000 0000"),                         // no question
        hex("1234 0100 0002 0000 0000 0000") + kQuestion + kQuestion, // two
        hex("1234 0100 0001 0000 0000 0000 c00c 0001 0001"),          // compressed
        with_opt(hex("01 61 00 0029 04d0 00 00 8000 0000")),          // OPT with a name
        with_opt(hex("00 0029 04d0 01 00 8000 0000")),                // extended rcode
        with_opt(hex("00 0029 04d0 00 00 8001 0000")),                // other EDNS flags
        with_opt(hex("00 0029 04d0 00 00 8000 0003 000300")),         // half an option
        with_opt(hex("00 0010 0001 00000000 0000")),                  // another record
        hex("1234 0100 0001 0000 0000 0002") + kQuestion + opt + opt, // two OPT
        hex("1234 0100 0001 0001 0000 0000") + kQuestion + hex("00 0001 0001 00000000 0000"),
        hex("1234 0100 0001 0000 0000 0000 40"),
        hex("ffff ffff ffff ffff ffff ffff"),
    };
    for (const Buffer& message : odd) {
        const std::string cells = message_cells(message);
        std::string bytes;
        append_hex(bytes, message);
        EXPECT_EQ(cells.substr(cells.rfind('\t') + 1), bytes) << cells;
        const ReadAll read = read_content(as_text({usual(message)}));
        ASSERT_EQ(read.queries.size(), 1U) << read.refused << read.trouble;
        EXPECT_EQ(read.queries[0].message, message);
    }
}

TEST(TextForm, ClosesAndClasses) {
    OwnQuery close = usual({});
    close.query.transport = Transport::kTcp;
    close.query.connection = 7;
    EXPECT_EQ(row(close), "1475762100.123456789\t192.0.2.1\t1024\t198.51.100.1\t53\ttcp\t7\tclose"
                          "\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\n");
    OwnQuery classes = usual(plain());
    classes.query.rtt_class = 80;
    classes.query.idle_class = 20;
    EXPECT_TRUE(row(classes).ends_with("\t80\t20\t-\n"));
}

TEST(TextForm, RandomQueriesSurviveTextAndStream) {
    QueryMaker maker(1);
    constexpr size_t kCount = 2'000;
    std::vector<OwnQuery> queries;
    queries.reserve(kCount);
    for (size_t i = 0; i < kCount; ++i) {
        queries.push_back(maker.next());
    }
    const ReadAll text = read_content(as_text(queries));
    EXPECT_EQ(text.trouble, "");
    EXPECT_EQ(text.description, "text");
    ASSERT_EQ(text.queries.size(), queries.size());
    EXPECT_TRUE(text.queries == queries);
    const ReadAll stream = read_content(as_stream(text.queries));
    EXPECT_EQ(stream.trouble, "");
    EXPECT_TRUE(stream.queries == queries);
    EXPECT_EQ(as_text(stream.queries), as_text(queries));
}

/// The columns stand for a message only where they are its bytes again, and then no hex is written.
TEST(TextForm, ExactOrNot) {
    QueryMaker maker(2);
    unsigned exact = 0;
    for (int i = 0; i < 6'000; ++i) {
        const Buffer message = maker.message();
        Row columns;
        read_message(message, columns);
        Buffer again;
        make_message(columns, again);
        const bool same = columns.has(kOfQuestion) && again == message;
        ASSERT_EQ(row(usual(message)).ends_with("\t-\n"), same) << i;
        exact += same ? 1U : 0U;
    }
    EXPECT_GT(exact, 2'400U);
    EXPECT_LT(exact, 5'400U);
}

/// A cell as a row has it, and as it is written again.
struct Cell {
    explicit Cell(Column column) : kind(kind_of(column)) { row.parts = ~0U; }

    bool parse(std::string_view text) { return kind.parse(text, row, memory); }

    std::string print() const {
        std::string out;
        append_cell(out, kind, row);
        return out;
    }

    const ColumnKind& kind;
    Row row;
    RowMemory memory;
};

TEST(TextCells, EveryColumnStandsInItsPlace) {
    for (const auto& [column, name] : std::vector<std::pair<Column, std::string>>{
             {Column::kTime, "time"},       {Column::kSource, "source"},
             {Column::kPort, "port"},       {Column::kDestination, "destination"},
             {Column::kDport, "dport"},     {Column::kTransport, "transport"},
             {Column::kId, "id"},           {Column::kConnection, "connection"},
             {Column::kFlags, "flags"},     {Column::kOpcode, "opcode"},
             {Column::kName, "name"},       {Column::kClass, "class"},
             {Column::kType, "type"},       {Column::kEdns, "edns"},
             {Column::kDo, "do"},           {Column::kVersion, "version"},
             {Column::kOptions, "options"}, {Column::kRtt, "rtt"},
             {Column::kIdle, "idle"},       {Column::kHex, "hex"}}) {
        EXPECT_EQ(kind_of(column).name, name);
    }
}

TEST(TextCells, Times) {
    const std::vector<std::pair<std::string, Nanoseconds>> known{
        {"1475762100.123456789", 1'475'762'100'123'456'789},
        {"0.000000000", 0},
        {"0.000000001", 1},
        {"-0.500000000", -500'000'000},
        {"5680281599.999999999", kEndOfTraceTime - 1},
        {"-2208988800.000000000", kFirstTraceTime}};
    Cell cell(Column::kTime);
    for (const auto& [text, time] : known) {
        cell.row.time = time;
        EXPECT_EQ(cell.print(), text);
        cell.row.time = 1;
        EXPECT_TRUE(cell.parse(text));
        EXPECT_EQ(cell.row.time, time);
    }
    EXPECT_TRUE(cell.parse("12.5"));
    EXPECT_EQ(cell.row.time, 12'500'000'000);
    EXPECT_TRUE(cell.parse("12"));
    EXPECT_TRUE(cell.parse("12."));
    for (const char* bad :
         {"", "-", ".", ".5", "1.1234567890", "1e9", "1.5e3", "5680281600", "-2208988800.000000001",
          "9223372036.854775808", "-9223372036.854775809", "12345678901", "1 ", " 1", "+1", "--1",
          "1.-5", "0x1", "12.."}) {
        EXPECT_FALSE(cell.parse(bad)) << bad;
    }
}

TEST(TextCells, Addresses) {
    QueryMaker maker(3);
    Cell cell(Column::kSource);
    for (int i = 0; i < 5'000; ++i) {
        const IpAddress address = maker.next().query.source.address;
        cell.row.source = address;
        const std::string text = cell.print();
        EXPECT_EQ(text, address.text());
        EXPECT_TRUE(cell.parse(text));
        EXPECT_EQ(cell.row.source, address);
    }
    EXPECT_FALSE(cell.parse("example"));
}

TEST(TextCells, FlagsAndOptions) {
    Cell flags(Column::kFlags);
    EXPECT_TRUE(flags.parse("CD,rd"));
    EXPECT_EQ(flags.row.flags, 0x0110);
    EXPECT_FALSE(flags.parse("rd,xx"));
    EXPECT_FALSE(flags.parse("rd ad"));
    flags.row.flags = 0x07f0;
    EXPECT_EQ(flags.print(), "aa,tc,rd,ra,z,ad,cd");
    Cell options(Column::kOptions);
    EXPECT_TRUE(options.parse("nsid:;8:0001180ac000"));
    EXPECT_EQ(Buffer(options.row.options.begin(), options.row.options.end()),
              hex("0003 0000 0008 0006 0001180ac000"));
    for (const char* bad : {"NSID", "NSID:0", "NSID:xx", "65536:", ":00", "FOO:", "NSID:;;"}) {
        EXPECT_FALSE(options.parse(bad)) << bad;
    }
    EXPECT_FALSE(options.parse("PADDING:" + std::string(2UL * 65'533, '0')));
    EXPECT_TRUE(options.parse("PADDING:" + std::string(2UL * 65'531, '0')));
}

} // namespace
} // namespace reprise::trace

// NOLINTEND(bugprone-unchecked-optional-access)
