// The stream form: whole, cut, damaged.
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/forms.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

template <typename T> std::string little(T value) {
    std::string out(sizeof value, '\0');
    std::memcpy(out.data(), &value, sizeof value);
    return out;
}

std::string frame(const std::string& payload) {
    return little(static_cast<std::uint32_t>(payload.size())) +
           little(static_cast<std::uint64_t>(XXH64(payload.data(), payload.size(), 0))) + payload;
}

std::string block(std::uint32_t count, const std::string& records) {
    wire::Block out;
    out.set_count(count);
    out.set_records(records);
    return out.SerializeAsString();
}

std::string begin() {
    std::string out;
    make_stream_encoder()->begin(out);
    return out;
}

std::string end(std::uint64_t records) { return little(std::uint32_t{0}) + little(records); }

std::string record(const OwnQuery& query) {
    std::string out;
    append_record(out, query.view());
    return out;
}

TEST(StreamForm, HeaderAndEndAreAsDocumented) {
    EXPECT_EQ(as_stream({}), std::string("RPSTREAM\1\0\0\0\0\0\0\0", 16) + std::string(12, '\0'));
    const auto two = queries(2);
    EXPECT_EQ(as_stream(two), begin() + frame(block(2, record(two[0]) + record(two[1]))) + end(2));
}

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
/// A query and a close, each value of different bytes.
std::vector<OwnQuery> example() {
    const Endpoint client{.address = *IpAddress::parse("192.0.2.1"), .port = 0x2122};
    const Endpoint client6{.address = *IpAddress::parse("2001:db8:304:506:708:90a:b0c:d0e"),
                           .port = 0x3132};
    const Endpoint server{.address = *IpAddress::parse("198.51.100.53"), .port = 0x4142};
    const Endpoint server6{.address = *IpAddress::parse("2001:db8::5354"), .port = 0x5152};
    const Buffer message{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    return {{.query = {.sequence = 0x0102030405060708,
                       .time = 0x1112131415161718,
                       .source = client,
                       .destination = server,
                       .connection = 0x616263646566,
                       .transport = Transport::kTls,
                       .rtt_class = 0x7172,
                       .idle_class = 0x8182,
                       .message = {}},
             .message = message},
            {.query = {.sequence = 0x0102030405060709,
                       .time = 0x1112131415161719,
                       .source = client6,
                       .destination = server6,
                       .connection = 0x616263646566,
                       .transport = Transport::kTcp,
                       .message = {}},
             .message = {}}};
}

// NOLINTEND(bugprone-unchecked-optional-access)

TEST(StreamForm, IsByteForByteAsInTheExample) {
    std::ifstream file(REPRISE_SOURCE_DIR "/tests/records/example.rps", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(as_stream(example()), bytes);
    const ReadAll read = read_content(bytes);
    EXPECT_EQ(read.trouble, "");
    EXPECT_TRUE(read.queries == example());
}

TEST(StreamForm, FramesOf256) {
    for (const unsigned count : {0U, 1U, 255U, 256U, 257U, 1'000U}) {
        const auto in = queries(count);
        const ReadAll read = read_content(as_stream(in));
        EXPECT_EQ(read.trouble, "");
        EXPECT_EQ(read.description, "stream");
        EXPECT_TRUE(read.queries == in) << count;
    }
}

TEST(StreamForm, FlushEndsAFrame) {
    const auto in = queries(3);
    std::string out;
    const auto encoder = make_stream_encoder();
    encoder->begin(out);
    encoder->flush(out);
    for (const OwnQuery& query : in) {
        encoder->encode(query.view(), out);
        encoder->flush(out);
        encoder->flush(out);
    }
    encoder->finish(out);
    EXPECT_TRUE(read_content(out).queries == in);
    EXPECT_EQ(out, begin() + frame(block(1, record(in[0]))) + frame(block(1, record(in[1]))) +
                       frame(block(1, record(in[2]))) + end(3));
}

/// What was read is the beginning of what was written, and the trouble says how much was good.
void expect_prefix(const ReadAll& read, const std::vector<OwnQuery>& in) {
    ASSERT_TRUE(!read.refused.empty() || !read.trouble.empty());
    ASSERT_LE(read.queries.size(), in.size());
    ASSERT_TRUE(std::equal(read.queries.begin(), read.queries.end(), in.begin()));
    if (read.refused.empty()) {
        ASSERT_THAT(read.trouble, HasSubstr(fmt::format("({} quer", read.good)));
        ASSERT_THAT(read.trouble, HasSubstr("byte "));
    }
}

TEST(StreamForm, CutAnywhere) {
    const auto in = queries(300);
    const std::string whole = as_stream(in);
    for (size_t size = 0; size < whole.size();
         size += size < 200 || size + 200 > whole.size() ? 1U : 97U) {
        expect_prefix(read_content(whole.substr(0, size)), in);
    }
}

TEST(StreamForm, AnyByteChanged) {
    const auto in = queries(6);
    const std::string whole = as_stream(in);
    for (size_t at = 0; at < whole.size(); ++at) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
        expect_prefix(read_content(damaged), in);
    }
}

TEST(StreamForm, FramesWithGoodChecksumsAndBadContent) {
    const auto in = queries(2);
    const std::string one = record(in[0]);
    std::string version = one;
    version[4] = 9;
    Query tiny = usual({}).query;
    const Buffer short_message(11, 1);
    tiny.message = short_message;
    std::string eleven;
    append_record(eleven, tiny);
    OwnQuery nowhere = usual(Buffer(12));
    nowhere.query.destination = {};
    OwnQuery many = in[0];
    many.query.connection = 1ULL << 48U;
    OwnQuery early = in[0];
    early.query.time = kFirstTraceTime - 1;
    OwnQuery late = in[0];
    late.query.time = kEndOfTraceTime;
    const std::vector<std::pair<std::string, std::string>> cases{
        {frame(block(1, record(early))), "has a time before 1900 or after 2149"},
        {frame(block(1, record(late))), "has a time before 1900 or after 2149"},
        {frame(block(1, record(many))), "has connection 281474976710656; numbers are below 2^48"},
        {frame("not protobuf"), "the frame is not a block"},
        {frame(block(0, one)), "the frame is not a block of 1 to 256 records"},
        {frame(block(257, one)), "the frame is not a block of 1 to 256 records"},
        {frame(block(2, one)), "is cut or broken"},
        {frame(block(1, one + one)) + end(1), "is one more than its frame says"},
        {frame(block(1, one.substr(0, 40))), "is cut or broken"},
        {frame(block(1, version)), "is cut or broken"},
        {frame(block(1, eleven)), "is neither a query nor the close"},
        {frame(block(1, record(usual({})))), "is neither a query nor the close"},
        {frame(block(1, record(nowhere))), "is neither a query nor the close"},
        {little(std::uint32_t{(32U << 20U) + 1}) + little(std::uint64_t{0}), "more than 33554432"},
        {frame(block(1, one)) + end(2), "counts 2 records, but 1 were read"},
        {frame(block(1, one)) + end(1) + "x", "something follows the trace's end"},
        {frame(block(1, one)) + end(1) + begin(), "something follows the trace's end"},
    };
    for (const auto& [content, error] : cases) {
        EXPECT_THAT(read_content(begin() + content).trouble, HasSubstr(error));
    }
}

TEST(StreamForm, OtherVersions) {
    std::string other = as_stream(queries(1));
    other[8] = 2;
    EXPECT_THAT(read_content(other).refused,
                HasSubstr("version 2 of the stream form cannot be read"));
    EXPECT_THAT(read_content("RPSTREAM\1").refused, HasSubstr("version (cut)"));
}

} // namespace
} // namespace reprise::trace
