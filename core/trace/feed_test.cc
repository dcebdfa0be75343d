// What one thread reads of one trace (Feed::read()). Several files and threads: pipeline_test.cc.
#include "core/base/fd.hh"
#include "core/dns/message.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A query and a response in turn, from as many sources, each with its number as id.
Buffer mixed_capture(unsigned packets) {
    PcapFile file(101, true);
    for (unsigned i = 0; i < packets; ++i) {
        const bool response = i % 2 == 1;
        const std::string client = "192.0.2." + std::to_string(1 + i % 200);
        file.add(response
                     ? ipv4(udp(53, 1000, dns(static_cast<std::uint16_t>(i), true)),
                            {.destination = client})
                     : ipv4(udp(1000, 53, dns(static_cast<std::uint16_t>(i))), {.source = client}),
                 i * kSecond);
    }
    return file.bytes();
}

/// All that is left, with responses as negative numbers.
std::vector<int> ids(Feed& feed) {
    std::vector<int> out;
    feed.each([&out](const Query& query) {
        const Bytes bytes = query.message;
        out.push_back((query.is_response() ? -1 : 1) * (bytes[0] * 256 + bytes[1]));
        return true;
    });
    return out;
}

TEST(Feed, YieldsEveryMessageInOrder) {
    for (const unsigned packets : {1U, 15U, 16U, 17U, 33U, 1'000U}) {
        const ScratchFile file(mixed_capture(packets));
        Feed feed({.paths = {file.path()}, .responses = Responses::kHeaders});
        std::vector<int> expected;
        expected.reserve(packets);
        for (unsigned i = 0; i < packets; ++i) {
            expected.push_back(i % 2 == 0 ? static_cast<int>(i) : -static_cast<int>(i));
        }
        EXPECT_EQ(ids(feed), expected);
        EXPECT_EQ(feed.packets(), packets);
        EXPECT_EQ(feed.responses(), 0U);
        EXPECT_EQ(feed.share_read(), 1);
    }
}

TEST(Feed, CountsTheResponsesThatItLeavesOut) {
    const ScratchFile file(mixed_capture(101));
    Feed feed({.paths = {file.path()}});
    EXPECT_EQ(ids(feed).size(), 51U);
    EXPECT_EQ(feed.responses(), 50U);
}

TEST(Feed, ResponsesHaveTheirHeader) {
    const ScratchFile file(mixed_capture(2));
    Feed feed({.paths = {file.path()}, .responses = Responses::kHeaders});
    Batch batch;
    ASSERT_TRUE(feed.read(batch));
    ASSERT_THAT(batch.queries, SizeIs(2));
    EXPECT_GT(batch.queries[0].message.size(), kDnsHeaderSize);
    EXPECT_EQ(batch.queries[1].message.size(), kDnsHeaderSize);
    EXPECT_TRUE(batch.queries[1].is_response());
}

TEST(Feed, BeginsAgainAlsoInTheMiddle) {
    const ScratchFile file(mixed_capture(100));
    Feed feed({.paths = {file.path()}});
    Batch batch;
    ASSERT_TRUE(feed.read(batch));
    const std::uint64_t before = feed.packets();
    feed.restart();
    EXPECT_EQ(ids(feed).size(), 50U);
    feed.restart();
    EXPECT_EQ(ids(feed).size(), 50U);
    EXPECT_EQ(feed.packets(), before + 200) << "of all laps";
}

/// Of two taps, one for each direction.
TEST(Feed, AFileOfResponsesComesInItsTime) {
    PcapFile asked(101, true);
    PcapFile answered(101, true);
    for (std::uint16_t id = 1; id < 4; ++id) {
        asked.add(ipv4(udp(1000, 53, dns(id))), id * kSecond);
        answered.add(ipv4(udp(53, 1000, dns(id, true))), id * kSecond + kMillisecond);
    }
    const ScratchFile queries(asked.bytes());
    const ScratchFile responses(answered.bytes());
    Feed feed({.paths = {queries.path(), responses.path()}, .responses = Responses::kWhole});
    EXPECT_THAT(ids(feed), ElementsAre(1, -1, 2, -2, 3, -3));
}

TEST(Feed, AFileThatBeginsWithOtherPacketsComesInItsTime) {
    PcapFile plain(101, true);
    PcapFile busy(101, true);
    plain.add(ipv4(udp(1000, 53, dns(1))), kSecond);
    const Buffer other_packet = ipv4(udp(1000, 1001, dns(0)));
    for (int i = 0; i < 20'000; ++i) {
        busy.add(other_packet, kSecond);
    }
    busy.add(ipv4(udp(1000, 53, dns(2))), 2 * kSecond);
    plain.add(ipv4(udp(1000, 53, dns(3))), 3 * kSecond);
    const ScratchFile one(plain.bytes());
    const ScratchFile other(busy.bytes());
    Feed feed({.paths = {one.path(), other.path()}});
    EXPECT_THAT(ids(feed), ElementsAre(1, 2, 3));
}

TEST(Feed, TellsTheSourcesBeforeTheirQueries) {
    const ScratchFile file(mixed_capture(100));
    unsigned told = 0;
    Feed feed({.paths = {file.path()}, .expect = [&told](const IpAddress&) { ++told; }});
    Batch batch;
    ASSERT_TRUE(feed.read(batch));
    EXPECT_GT(told, 8U);
    ids(feed);
    EXPECT_EQ(told, 50U);
}

TEST(Feed, SaysWhatItReadsAndWhereThatEnded) {
    const ScratchFile file(mixed_capture(100));
    Feed feed({.paths = {file.path()}});
    feed.open();
    EXPECT_THAT(feed.end().description, StartsWith("pcap"));
    EXPECT_EQ(ids(feed).size(), 50U);
    EXPECT_EQ(feed.end().trouble, "");
    std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 3);
    feed.restart();
    feed.open();
    EXPECT_EQ(feed.end().trouble, "");
    ids(feed);
    EXPECT_THAT(feed.end().trouble, HasSubstr("cut"));
}

TEST(Feed, SaysAtOnceWhatCannotBeOpened) {
    Feed feed({.paths = {"/nowhere/trace.pcap"}});
    EXPECT_THROW(feed.open(), TraceError);
    EXPECT_TRUE(ids(feed).empty());
    EXPECT_THAT(feed.end().trouble, HasSubstr("No such file"));
}

/// A pipe that stays open; the test writes and reads in turn, so it would hang where the feed
/// waited for more than is there.
class FeedPipeTest : public ::testing::Test {
protected:
    FeedPipeTest() {
        EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
        writer_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    }

    ~FeedPipeTest() override { std::filesystem::remove(path_); }

    void write(const std::string& text) {
        ASSERT_EQ(::write(writer_.get(), text.data(), text.size()),
                  static_cast<ssize_t>(text.size()));
    }

    void expect(Feed& feed, int queries) {
        Batch batch;
        for (int i = 0; i < queries;) {
            ASSERT_TRUE(feed.read(batch));
            for (const Query& query : batch.queries) {
                EXPECT_TRUE(own(query) == query_);
                ++i;
            }
        }
    }

    std::string path_ =
        std::filesystem::temp_directory_path() / ("reprise-feed-" + std::to_string(getpid()));
    FileDescriptor writer_;
    OwnQuery query_ = usual(dns(7));
};

TEST_F(FeedPipeTest, HoldsBackNoRow) {
    write(as_text({query_}));
    Feed feed({.paths = {path_}, .reader = {.closes = true}});
    expect(feed, 1);
    for (const int rows : {1, 1, 3, 40, 1}) {
        std::string text;
        for (int i = 0; i < rows; ++i) {
            append_text_row(text, query_.view());
        }
        write(text + "# a comment\n");
        expect(feed, rows);
    }
}

TEST_F(FeedPipeTest, HoldsBackNoRecord) {
    std::string bytes;
    const auto encoder = make_stream_encoder();
    encoder->begin(bytes);
    std::optional<Feed> feed;
    for (const int records : {1, 1, 3, 40, 1}) {
        for (int i = 0; i < records; ++i) {
            encoder->encode(query_.view(), bytes);
        }
        encoder->flush(bytes);
        write(bytes);
        bytes.clear();
        if (!feed) {
            feed.emplace(FeedOptions{.paths = {path_}, .reader = {.closes = true}});
        }
        expect(*feed, records);
    }
}

} // namespace
} // namespace reprise::trace
