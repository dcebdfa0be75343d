#include "core/base/address.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/synth_options.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <unordered_set>

namespace reprise::mutator {
namespace {

TEST(Clients, AddressesAreDistinctAndInsideThePrefix) {
    SynthOptions options;
    options.client_prefix = "198.51.100.0/24";
    options.clients = 254;
    options.ipv6_share = 0;
    const Clients clients(check_options(options));
    std::unordered_set<IpAddress> seen;
    for (std::uint32_t i = 0; i < 254; ++i) {
        const IpAddress address = clients.address(i);
        EXPECT_TRUE(address.text().starts_with("198.51.100."));
        EXPECT_NE(address.bytes[3], 0);
        EXPECT_NE(address.bytes[3], 255);
        EXPECT_TRUE(seen.insert(address).second) << address.text();
    }
}

TEST(Clients, ManyIpv6AddressesAreDistinct) {
    SynthOptions options;
    options.clients = 100'000;
    options.ipv6_share = 1;
    const Clients clients(check_options(options));
    std::unordered_set<IpAddress> seen;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        ASSERT_TRUE(clients.address(i).is_v6());
        ASSERT_TRUE(seen.insert(clients.address(i)).second);
    }
}

// With Zipf activity a handful of clients asks most, yet the shares of queries come out.
TEST(Clients, HabitsAreDealtByActivity) {
    SynthOptions options;
    options.clients = 1000;
    options.ipv6_share = 0.25;
    const Clients clients(check_options(options));
    double all = 0;
    double ipv6 = 0;
    double edns = 0;
    double dnssec = 0;
    for (std::uint32_t i = 0; i < 1000; ++i) {
        const double weight = 1.0 / (i + 1);
        const ClientHabit& habit = clients.habit(i);
        all += weight;
        ipv6 += habit.ipv6 ? weight : 0;
        edns += habit.edns ? weight : 0;
        dnssec += habit.dnssec_ok ? weight : 0;
    }
    EXPECT_NEAR(ipv6 / all, 0.25, 0.005);
    EXPECT_NEAR(edns / all, options.edns_share, 0.005);
    EXPECT_NEAR(dnssec / all, options.edns_share * options.do_share, 0.005);
}

} // namespace
} // namespace reprise::mutator
