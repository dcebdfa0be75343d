#include "core/base/address.hh"
#include "core/base/flat_ids.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>

namespace reprise {
namespace {

TEST(AddressIdsTest, FindsExactlyWhatWasPutIn) {
    std::mt19937 random(3);
    std::map<IpAddress, std::uint32_t> truth;
    const auto draw = [&random] {
        const auto low = static_cast<std::uint8_t>(random());
        const std::array<std::uint8_t, 16> bytes{192, 0, static_cast<std::uint8_t>(random() % 64),
                                                 low};
        return random() % 2 == 0 ? IpAddress::v4(bytes.data()) : IpAddress::v6(bytes.data());
    };
    AddressIds ids;
    for (int i = 0; i < 5'000; ++i) {
        const IpAddress address = draw();
        const auto [entry, fresh] = truth.try_emplace(address, truth.size());
        ASSERT_EQ(ids.find_or_add(address, ids.size()), std::pair(entry->second, fresh));
    }
    EXPECT_EQ(ids.size(), truth.size());
    for (int i = 0; i < 20'000; ++i) {
        const IpAddress address = draw();
        ids.expect(address);
        const auto wanted = truth.find(address);
        ASSERT_EQ(ids.find(address),
                  wanted == truth.end() ? std::nullopt : std::optional(wanted->second));
    }
}

TEST(AddressIdsTest, AnEmptyMapFindsNothing) {
    const AddressIds ids;
    ids.expect(IpAddress{});
    EXPECT_EQ(ids.find(IpAddress{}), std::nullopt);
    EXPECT_EQ(ids.find(IpAddress{.family = 4}), std::nullopt);
}

} // namespace
} // namespace reprise
