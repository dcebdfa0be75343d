// As whom queries are sent: prefixes, owners, and the options that name them.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <sched.h>
#include <set>
#include <string>
#include <vector>

namespace reprise::querier {
namespace {

/// The prefix's address number `index` as text; empty where it has none.
std::string at(const char* prefix, std::uint64_t index) {
    const auto address = source_address(Prefix::parse(prefix).value_or(Prefix{}), index);
    return address ? address->text() : "";
}

TEST(SourceAddress, LeavesOutTheNetworkAndBroadcastAddresses) {
    EXPECT_EQ(at("10.0.0.0/8", 0), "10.0.0.1");
    EXPECT_EQ(at("10.0.0.0/8", 255), "10.0.1.0");
    EXPECT_EQ(at("10.0.0.0/8", (1U << 24U) - 3), "10.255.255.254");
    EXPECT_EQ(at("10.0.0.0/8", (1U << 24U) - 2), "");
    EXPECT_EQ(at("10.0.0.0/8", std::numeric_limits<std::uint32_t>::max()), "");
    EXPECT_EQ(at("10.0.0.4/30", 0), "10.0.0.5");
    EXPECT_EQ(at("10.0.0.4/30", 1), "10.0.0.6");
    EXPECT_EQ(at("10.0.0.4/30", 2), "");
    EXPECT_EQ(at("10.0.0.4/31", 0), "");
    EXPECT_EQ(at("10.0.0.4/32", 0), "");
    EXPECT_EQ(at("0.0.0.0/0", 0xfffffffd), "255.255.255.254");
    EXPECT_EQ(at("0.0.0.0/0", 0xfffffffe), "");
}

TEST(SourceAddress, HasRoomForEverySourceInIpv6) {
    EXPECT_EQ(at("fd00::/64", 0), "fd00::1");
    EXPECT_EQ(at("fd00::/64", 0xfffe), "fd00::ffff");
    EXPECT_EQ(at("fd00::/64", 0xffffffff), "fd00::1:0:0");
    EXPECT_EQ(at("fd00::/64", std::numeric_limits<std::uint64_t>::max() - 1),
              "fd00::ffff:ffff:ffff:ffff");
    EXPECT_EQ(at("fd00::/64", std::numeric_limits<std::uint64_t>::max()), "");
    EXPECT_EQ(at("fd00::/8", std::numeric_limits<std::uint64_t>::max()), "");
    EXPECT_EQ(at("fd00::6/127", 0), "fd00::7");
    EXPECT_EQ(at("fd00::6/127", 1), "");
    EXPECT_EQ(at("fd00::7/128", 0), "");
}

TEST(SourcePrefixOption, NeedsAnAddressABitCountAndNoHostBits) {
    for (const char* const text :
         {"", "/", "/8", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/+8",
          "10.0.0.0/8 ", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0/8", "fd00::/129", "fd00::1/64",
          "10.0.0.0/99999999999"}) {
        EXPECT_THROW(parse_prefix(text), UsageError) << text;
    }
    EXPECT_EQ(parse_prefix("10.1.0.0/16").bits, 16U);
    EXPECT_EQ(parse_prefix("fd00::/64").address.text(), "fd00::");
}

TEST(Owner, IsDistinctForEveryAddressAndPort) {
    constexpr std::array<std::uint16_t, 4> kPorts{1, 53, 1024, 65535};
    std::set<Owner> owners;
    size_t count = 0;
    for (const char* const prefix : {"10.0.0.0/8", "203.0.113.0/24", "fd00::/64", "fd00:1::/64"}) {
        for (std::uint64_t index = 0; index < 250; ++index) {
            for (const std::uint16_t port : kPorts) {
                const auto address =
                    source_address(Prefix::parse(prefix).value_or(Prefix{}), index);
                const Owner owner =
                    owner_of({.address = address.value_or(IpAddress{}), .port = port});
                EXPECT_EQ(owner & 0xffffU, kOwnerAddress);
                owners.insert(owner);
                ++count;
            }
        }
    }
    EXPECT_EQ(owners.size(), count);
}

TEST(Owner, KindsDoNotMeet) {
    const Owner address = owner_of(Endpoint::parse("0.0.0.0:1").value_or(Endpoint{}));
    EXPECT_NE(owner_of(1, kOwnerSocket), owner_of(1, kOwnerConnection));
    EXPECT_NE(owner_of(1, kOwnerSocket), address);
    EXPECT_NE(owner_of(1, kOwnerConnection), address);
}

TEST(Options, ProcessorsAreAList) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    unsigned first = 0;
    while (!CPU_ISSET(first, &allowed)) {
        ++first;
    }
    const auto twice = fmt::format("{},{}-{}", first, first, first);
    EXPECT_EQ(parse_cpus(twice), (std::vector<unsigned>{first, first}));
    for (const char* const text : {",", "0,", "1-0", "a", "0-", "-1", "0-1-2", "0 1", "99999",
                                   "4294967296", "0-4294967295"}) {
        EXPECT_THROW(parse_cpus(text), UsageError) << text;
    }
}

TEST(Options, AProcessorThatIsNotOursIsNamed) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    if (!CPU_ISSET(1023, &allowed)) {
        EXPECT_THROW(parse_cpus("1023"), UsageError);
    }
}

} // namespace
} // namespace reprise::querier
