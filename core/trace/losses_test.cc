#include "core/trace/losses.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::trace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Losses, AreToldAboveOneInAThousand) {
    EXPECT_THAT(losses({{"cut_packet", 1}}, 1'000), IsEmpty());
    EXPECT_THAT(losses({{"cut_packet", 2}}, 1'000),
                ElementsAre("cut_packet 2 (0.2 %): packets captured only in part; capture whole "
                            "packets (tcpdump -s 0)"));
    EXPECT_THAT(losses({{"other_port", 500}, {"tunnel", 500}}, 10), IsEmpty()) << "not lost";
    EXPECT_THAT(losses({{"mpls_unread", 5}}, 10),
                ElementsAre(StartsWith("mpls_unread 5 (33.3 %)")));
}

TEST(Losses, TheMostComesFirst) {
    EXPECT_THAT(losses({{"cut_packet", 10}, {"tcp_gap", 30}, {"unknown_link", 20}}, 40),
                ElementsAre(StartsWith("tcp_gap 30 (42.9 %): "),
                            StartsWith("unknown_link 20 (33.3 %): "),
                            StartsWith("cut_packet 10 (20.0 %): ")));
}

TEST(Losses, AreToldWhereNothingWasRead) {
    EXPECT_THAT(losses({{"cut_packet", 3}}, 0), ElementsAre(StartsWith("cut_packet 3 (100.0 %)")));
    EXPECT_EQ(losses_suffix({}, 0), "");
    EXPECT_THAT(losses_suffix({{"tunnel_unread", 3}}, 0),
                StartsWith("; tunnel_unread 3 (100.0 %)"));
}

TEST(Losses, WhatWasNotReadHasItsReason) {
    const Counters counters{{"other_port", 7}, {"not_ip", 9}, {"cut_packet", 1}, {"tunnel", 50}};
    EXPECT_EQ(left_out(counters), "not_ip 9 (neither IPv4 nor IPv6), "
                                  "other_port 7 (neither end is a DNS port), "
                                  "cut_packet 1 (packets captured only in part)");
    EXPECT_EQ(left_out({{"tunnel", 50}}), "");
    EXPECT_EQ(unread_suffix(counters, 1),
              "; not_ip 9 (90.0 %): neither IPv4 nor IPv6"
              "; other_port 7 (87.5 %): neither end is a DNS port"
              "; cut_packet 1 (50.0 %): packets captured only in part; capture whole packets "
              "(tcpdump -s 0)");
}

} // namespace
} // namespace reprise::trace
