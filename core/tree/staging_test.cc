#include "core/base/bytes.hh"
#include "core/tree/block_frame.hh"
#include "core/wire/frame.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::tree {
namespace {

TEST(Staging, GivesBackWhatCameInPiecesThatAreWhole) {
    Staging staging;
    std::vector<std::uint8_t> all;
    for (size_t n = 0; n < 40; ++n) { // also longer than a piece
        const std::vector<std::uint8_t> one(n * 10'000, static_cast<std::uint8_t>(n));
        staging.add(one);
        all.insert(all.end(), one.begin(), one.end());
        ASSERT_EQ(staging.bytes(), all.size());
    }
    std::vector<std::uint8_t> drained;
    size_t pieces = 0;
    staging.drain([&](Bytes piece) {
        drained.insert(drained.end(), piece.begin(), piece.end());
        EXPECT_TRUE(piece.size() <= kBlockBytes || piece.front() == piece.back()) << "one record";
        ++pieces;
    });
    EXPECT_EQ(drained, all);
    EXPECT_GT(pieces, all.size() / kBlockBytes);
    EXPECT_EQ(staging.bytes(), 0U);
    staging.drain([](Bytes) { FAIL(); });
}

} // namespace
} // namespace reprise::tree
