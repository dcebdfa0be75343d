#include "core/base/json.hh"
#include "core/wire/result_file.hh"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

class ResultFile : public ::testing::Test {
protected:
    void SetUp() override { fs::create_directories(folder_); }

    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

    static std::vector<std::uint8_t> read(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

private:
    fs::path folder_ = fs::temp_directory_path() / ("reprise-result-" + std::to_string(::getpid()));
};

std::string_view text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Head {
    std::string_view magic;
    std::uint32_t schema = 0;
    std::uint32_t size = 0;
    std::uint32_t record_size = 0;
    std::string_view json;
};

Head read_head(Bytes file) {
    Cursor in(file);
    Head head;
    head.magic = text_of(in.take(8));
    head.schema = in.little<std::uint32_t>();
    head.size = in.little<std::uint32_t>();
    head.record_size = in.little<std::uint32_t>();
    head.json = text_of(in.take(in.little<std::uint32_t>()));
    EXPECT_TRUE(in.ok());
    return head;
}

struct Foot {
    std::uint64_t count = 0;
    std::uint64_t hash = 0;
    std::uint32_t json_size = 0;
    std::string_view magic;
};

Foot read_foot(Bytes file) {
    Cursor in(file.last(32));
    Foot foot;
    foot.count = in.little<std::uint64_t>();
    foot.hash = in.little<std::uint64_t>();
    foot.json_size = in.little<std::uint32_t>();
    in.skip(4);
    foot.magic = text_of(in.take(8));
    return foot;
}

constexpr std::uint64_t kRecords = 5'000; // more than one buffer

void write_records(const std::string& path) {
    RqWriter writer(path, {.run = "run \"1\"", .host = "client1", .querier = 2});
    for (std::uint64_t i = 0; i < kRecords; ++i) {
        writer.append({.sequence = i, .status = Status::kAnswered});
    }
    writer.finish(R"({"schema": 1})");
}

TEST_F(ResultFile, RqHasHeaderRecordsAndFooter) {
    write_records(path("a.rq"));
    const auto file = read(path("a.rq"));
    const Head head = read_head(file);
    EXPECT_EQ(head.magic, "RPRQHDR1");
    EXPECT_EQ(head.schema, 1U);
    EXPECT_EQ(head.record_size, 80U);
    EXPECT_EQ(head.size % 8, 0U);
    EXPECT_NE(head.json.find(R"("run":"run \"1\"")"), std::string_view::npos);
    EXPECT_NE(head.json.find(R"({"name":"status","type":"|u1","offset":74})"),
              std::string_view::npos);
    const Foot foot = read_foot(file);
    EXPECT_EQ(foot.magic, "RPRQEND1");
    EXPECT_EQ(foot.count, kRecords);
    EXPECT_EQ(file.size(), head.size + kRecords * 80 + foot.json_size + 32);
}

TEST_F(ResultFile, FooterHashesTheRecords) {
    write_records(path("a.rq"));
    const auto file = read(path("a.rq"));
    const Bytes records = Bytes(file).subspan(read_head(file).size, kRecords * 80);
    EXPECT_EQ(read_foot(file).hash, XXH3_64bits(records.data(), records.size()));
    Cursor in(records.last(80));
    EXPECT_EQ(in.little<std::uint64_t>(), kRecords - 1);
}

TEST_F(ResultFile, UnfinishedFileKeepsWhatWasFlushed) {
    {
        RqWriter writer(path("cut.rq"), {});
        writer.append({});
        writer.flush();
        writer.append({});
    }
    const auto file = read(path("cut.rq"));
    EXPECT_EQ(file.size(), read_head(file).size + 80);
}

TEST_F(ResultFile, RaPadsItsRecords) {
    const std::vector<std::uint8_t> query(13, 1);
    const std::vector<std::uint8_t> reply(30, 2);
    {
        RaWriter writer(path("a.ra"), R"({"kind": "replay"})");
        writer.append({.sequence = 7, .time = 9, .source = 3, .query = query, .reply = reply});
        writer.append({.sequence = 8, .query = query, .reply = {}});
        writer.finish();
    }
    const auto file = read(path("a.ra"));
    const Head head = read_head(file);
    EXPECT_EQ(head.magic, "RPRAHDR1");
    EXPECT_EQ(head.json, R"({"kind": "replay"})");
    Cursor in(file);
    in.seek(head.size);
    EXPECT_EQ(in.little<std::uint64_t>(), 7U);
    EXPECT_EQ(in.little<std::int64_t>(), 9);
    EXPECT_EQ(in.little<std::uint32_t>(), 3U);
    EXPECT_EQ(in.little<std::uint32_t>(), query.size());
    EXPECT_EQ(in.little<std::uint32_t>(), reply.size());
    in.skip(4 + 13 + 30 + 5); // 75 bytes so far, padded to 80
    EXPECT_EQ(in.little<std::uint64_t>(), 8U);
    EXPECT_EQ(file.size(), head.size + 80 + 48 + 32);
}

// Every value is of different bytes, so that a writer with another byte order, another place of a
// field or other padding makes another file. report/tests reads the same examples.
constexpr const char* kExamples = REPRISE_SOURCE_DIR "/tests/records/";

TEST_F(ResultFile, RqIsByteForByteAsInTheExample) {
    {
        RqWriter writer(path("example.rq"), {.run = "example",
                                             .host = "client1",
                                             .querier = 2,
                                             .start_mono = 0x1112131415161718,
                                             .start_real = 0x2122232425262728,
                                             .trace_first = -0x3132333435363738});
        writer.append({.sequence = 0x0102030405060708,
                       .trace_time = -0x1112131415161718,
                       .due = 0x2122232425262728,
                       .send = 0x3132333435363738,
                       .receive = 0x4142434445464748,
                       .latency = 0x5152535455565758,
                       .connect = 0x6162636465666768,
                       .source = 0x71727374,
                       .connection = 0x81828384,
                       .reply_size = 0x91929394,
                       .rcode = 0xa1a2,
                       .flags = 0xb1b2,
                       .marks = 0xc1c2,
                       .status = Status::kConnectionFailed,
                       .transport = Transport::kHttps,
                       .query_size = 0xd1d2,
                       .reason = SkipReason::kOversize,
                       .retries = 0xe1});
        writer.append({});
        writer.finish(R"({"schema": 1})");
    }
    EXPECT_EQ(read(path("example.rq")), read(std::string(kExamples) + "example.rq"));
}

TEST_F(ResultFile, RaIsByteForByteAsInTheExample) {
    const std::vector<std::uint8_t> query{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    const std::vector<std::uint8_t> reply{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5,
                                          0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb};
    {
        RaWriter writer(path("example.ra"), R"({"kind": "replay"})");
        writer.append({.sequence = 0x0102030405060708,
                       .time = 0x1112131415161718,
                       .source = 0x21222324,
                       .query = query,
                       .reply = reply});
        writer.append({.sequence = 9, .query = query, .reply = {}});
        writer.finish();
    }
    EXPECT_EQ(read(path("example.ra")), read(std::string(kExamples) + "example.ra"));
}

TEST_F(ResultFile, NeverOverwritesAndNamesTheFile) {
    write_records(path("a.rq"));
    try {
        const RqWriter again(path("a.rq"), {});
        FAIL() << "the file existed";
    } catch (const std::system_error& error) {
        EXPECT_NE(std::string(error.what()).find(path("a.rq")), std::string::npos);
    }
}

TEST_F(ResultFile, LinksAreNotFollowed) {
    fs::create_symlink(path("elsewhere"), path("link.rq"));
    EXPECT_THROW(RqWriter(path("link.rq"), {}), std::system_error);
    EXPECT_FALSE(fs::exists(path("elsewhere")));
}

TEST(JsonText, EscapesAndReplaces) {
    EXPECT_EQ(json_text("a\"b\\c\n"), R"("a\"b\\c\n")");
    EXPECT_EQ(json_text("\xff."), "\"\xEF\xBF\xBD.\"");
    EXPECT_EQ(json_text({{"b", 1}, {"a", nullptr}}), R"({"b":1,"a":null})");
}

} // namespace
} // namespace reprise
