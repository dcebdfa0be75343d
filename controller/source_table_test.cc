#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/base/address.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <system_error>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::controller {
namespace {

class SourceTableTest : public testing::TinyTrace {
protected:
    static IpAddress address(std::uint32_t i) {
        const std::array<std::uint8_t, 4> bytes{
            static_cast<std::uint8_t>(i >> 24U), static_cast<std::uint8_t>(i >> 16U),
            static_cast<std::uint8_t>(i >> 8U), static_cast<std::uint8_t>(i)};
        return IpAddress::v4(bytes.data());
    }
};

TEST_F(SourceTableTest, NumbersBothFamiliesInOrderOfAppearance) {
    SourceTable table(folder_ + "/sources.csv");
    EXPECT_EQ(table.id_of(*IpAddress::parse("192.0.2.1")), 0U);
    EXPECT_EQ(table.id_of(*IpAddress::parse("2001:db8::1")), 1U);
    EXPECT_EQ(table.id_of(*IpAddress::parse("192.0.2.2")), 2U);
    EXPECT_EQ(table.id_of(*IpAddress::parse("2001:db8::1")), 1U);
    EXPECT_EQ(table.id_of(*IpAddress::parse("0.0.0.0")), 3U);
    EXPECT_EQ(table.id_of(*IpAddress::parse("::")), 4U);
    table.flush();
    EXPECT_EQ(read_file(folder_ + "/sources.csv"),
              "id,address\n0,192.0.2.1\n1,2001:db8::1\n2,192.0.2.2\n3,0.0.0.0\n4,::\n");
}

/// Of a million too: the table doubles, and is as full with an eighth of them.
TEST_F(SourceTableTest, ManySourcesStayWithinTheMemoryPromised) {
    SourceTable table(folder_ + "/sources.csv");
    constexpr std::uint32_t kMany = 1'000'000 / 8;
    for (std::uint32_t i = 0; i < kMany; ++i) {
        ASSERT_EQ(table.id_of(address(i * 2'654'435'761U)), i);
    }
    for (std::uint32_t i = 0; i < kMany; i += 1'001) {
        ASSERT_EQ(table.id_of(address(i * 2'654'435'761U)), i);
    }
    EXPECT_EQ(table.ids().size(), kMany);
    EXPECT_LE(table.ids().memory(), kMany * 22UL);
}

TEST_F(SourceTableTest, AFolderThatIsNotThereIsNamed) {
    EXPECT_THROW(SourceTable(folder_ + "/none/sources.csv"), std::system_error);
}

} // namespace
} // namespace reprise::controller

// NOLINTEND(bugprone-unchecked-optional-access)
