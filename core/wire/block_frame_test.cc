#include "core/wire/frame.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise {
namespace {

std::string text(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// Without its size.
Bytes frame_of(const Outgoing& out) { return bytes_of(out.bytes).subspan(4); }

TEST(BlockFrame, IsReadByProtobuf) {
    BlockBuilder builder;
    for (const size_t size : {1UL, 50UL, 127UL, 128UL, 16'000UL, 16'383UL, 70'000UL}) {
        for (const std::uint32_t count : {1U, 127U, 128U, 256U}) {
            const std::vector<std::uint8_t> record(size, 0x41);
            for (std::uint32_t i = 0; i < count; ++i) {
                builder.append(record);
            }
            const Outgoing out = builder.take();
            EXPECT_EQ(out.cost, (Credit{.records = count, .bytes = size * count}));
            wire::Frame frame;
            const Bytes bytes = frame_of(out);
            ASSERT_TRUE(frame.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
            EXPECT_EQ(frame.block().count(), count);
            EXPECT_EQ(frame.block().records(), std::string(size * count, 'A'));
            EXPECT_EQ(builder.count(), 0U);
        }
    }
}

TEST(BlockFrame, IsFullByRecordsOrBytes) {
    BlockBuilder builder;
    const std::vector<std::uint8_t> small(10);
    for (std::uint32_t i = 0; i < kBlockRecords; ++i) {
        EXPECT_FALSE(builder.full());
        builder.append(small);
    }
    EXPECT_TRUE(builder.full());
    builder = {};
    EXPECT_EQ(builder.count(), 0U);
    builder.append(std::vector<std::uint8_t>(kBlockBytes));
    EXPECT_TRUE(builder.full());
}

TEST(BlockFrame, IsSeenInItsFrame) {
    BlockBuilder builder;
    builder.append(std::vector<std::uint8_t>(300, 0x42));
    const Outgoing out = builder.take();
    const auto seen = view_block(frame_of(out));
    ASSERT_TRUE(seen);
    EXPECT_EQ(text(*seen), std::string(300, 'B'));
}

TEST(BlockFrame, OtherFramesAndCutsAreNotBlocks) {
    wire::Frame frame;
    frame.mutable_end()->set_queries(7);
    const std::string end = encode_frame(frame);
    EXPECT_FALSE(view_block(bytes_of(end).subspan(4)));
    BlockBuilder builder;
    builder.append(std::vector<std::uint8_t>(300, 0x42));
    const Outgoing out = builder.take();
    const Bytes whole = frame_of(out);
    for (size_t cut = 0; cut < whole.size(); ++cut) {
        EXPECT_FALSE(view_block(whole.first(cut)));
    }
    std::vector<std::uint8_t> longer(whole.begin(), whole.end());
    longer.push_back(0);
    EXPECT_FALSE(view_block(longer));
    const std::vector<std::uint8_t> endless(40, 0xff);
    EXPECT_FALSE(view_block(endless));
}

} // namespace
} // namespace reprise

// NOLINTEND(bugprone-unchecked-optional-access)
