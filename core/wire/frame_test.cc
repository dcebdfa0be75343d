#include "core/wire/frame.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise {
namespace {

using Result = FrameReader::Result;

wire::Frame credit(std::uint64_t queries) {
    wire::Frame frame;
    frame.mutable_credit()->set_queries(queries);
    return frame;
}

TEST(Frame, SeveralAtOnceComeOutInOrder) {
    FrameReader reader;
    reader.feed(bytes_of(encode_frame(credit(1)) + encode_frame(credit(2))));
    wire::Frame frame;
    ASSERT_EQ(reader.next(frame), Result::kFrame);
    EXPECT_EQ(frame.credit().queries(), 1U);
    ASSERT_EQ(reader.next(frame), Result::kFrame);
    EXPECT_EQ(frame.credit().queries(), 2U);
    EXPECT_EQ(reader.next(frame), Result::kNeedMore);
}

TEST(Frame, ByteByByte) {
    FrameReader reader;
    wire::Frame frame;
    const std::string encoded = encode_frame(credit(77));
    for (size_t i = 0; i + 1 < encoded.size(); ++i) {
        reader.feed(bytes_of(encoded.substr(i, 1)));
        ASSERT_EQ(reader.next(frame), Result::kNeedMore) << i;
    }
    reader.feed(bytes_of(encoded.substr(encoded.size() - 1)));
    ASSERT_EQ(reader.next(frame), Result::kFrame);
    EXPECT_EQ(frame.credit().queries(), 77U);
}

TEST(Frame, ManyFramesThroughOneReader) {
    FrameReader reader;
    wire::Frame frame;
    for (std::uint64_t i = 0; i < 1'000; ++i) {
        const std::string encoded = encode_frame(credit(i));
        reader.feed(bytes_of(encoded.substr(0, 3)));
        ASSERT_EQ(reader.next(frame), Result::kNeedMore);
        reader.feed(bytes_of(encoded.substr(3)));
        ASSERT_EQ(reader.next(frame), Result::kFrame);
        ASSERT_EQ(frame.credit().queries(), i);
    }
}

TEST(Frame, SizeIsCappedBeforeTheBytesAreThere) {
    FrameReader reader;
    wire::Frame frame;
    reader.feed(bytes_of(std::string("\x01\0\x40\0", 4))); // 4 MiB and one byte
    EXPECT_EQ(reader.next(frame), Result::kTooLarge);
}

TEST(Frame, GarbageAndEmptyFramesAreCorrupt) {
    wire::Frame frame;
    FrameReader garbage;
    garbage.feed(bytes_of(std::string("\x03\0\0\0\xff\xff\xff", 7)));
    EXPECT_EQ(garbage.next(frame), Result::kCorrupt);
    FrameReader empty;
    empty.feed(bytes_of(std::string(4, '\0')));
    EXPECT_EQ(empty.next(frame), Result::kCorrupt);
}

/// A folder's name may hold any bytes.
TEST(Frame, AReasonNeedNotBeUtf8) {
    wire::Frame sent;
    sent.mutable_abort()->set_because("results: create /tmp/\xe9: No space left on device");
    wire::Frame frame;
    FrameReader reader;
    reader.feed(bytes_of(encode_frame(sent)));
    ASSERT_EQ(reader.next(frame), Result::kFrame);
    EXPECT_EQ(frame.abort().because(), sent.abort().because());
}

} // namespace
} // namespace reprise
