#include "core/base/bytes.hh"
#include "core/base/netlink.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string>
#include <vector>

namespace reprise {
namespace {

TEST(Netlink, TellsOfTheLoopback) {
    Netlink netlink;
    int error = 0;
    const auto link = netlink.ask_link(1, error);
    if (!link) {
        FAIL() << error;
    }
    EXPECT_EQ(link->type(), RTM_NEWLINK);
    EXPECT_EQ(link->header<ifinfomsg>().ifi_index, 1);
    const Bytes name = link->attribute(sizeof(ifinfomsg), IFLA_IFNAME);
    EXPECT_EQ(std::string(name.begin(), name.end()), std::string("lo\0", 3));
    EXPECT_GT(link->number(sizeof(ifinfomsg), IFLA_MTU), 0U);
    EXPECT_TRUE(link->attribute(sizeof(ifinfomsg), 0x3ff).empty());
    EXPECT_FALSE(link->address(sizeof(ifinfomsg), IFLA_ADDRESS)); // of 6 bytes
    EXPECT_FALSE(netlink.ask_neighbor(1, {.bytes = {192, 0, 2, 1}, .family = 4}, ~0U));
}

TEST(Netlink, TellsOfEveryLink) {
    Netlink netlink;
    NetlinkRequest request(RTM_GETLINK, NLM_F_DUMP, ifinfomsg{});
    std::vector<int> found;
    const int error = netlink.each(request, [&](const NetlinkMessage& message) {
        EXPECT_EQ(message.type(), RTM_NEWLINK);
        EXPECT_FALSE(message.attribute(sizeof(ifinfomsg), IFLA_IFNAME).empty());
        found.push_back(message.header<ifinfomsg>().ifi_index);
    });
    EXPECT_EQ(error, 0);
    EXPECT_THAT(found, ::testing::Contains(1));
    // The socket is good for a question after that.
    ifinfomsg wanted{};
    wanted.ifi_index = 1;
    NetlinkRequest one(RTM_GETLINK, 0, wanted);
    int refused = 0;
    EXPECT_TRUE(netlink.ask(one, refused));
}

TEST(Netlink, SaysWhenThereIsNothingToTell) {
    Netlink netlink;
    NetlinkRequest request(RTM_NEWROUTE, NLM_F_ACK, rtmsg{}); // no destination, no device
    EXPECT_NE(netlink.each(request, [](const NetlinkMessage&) { ADD_FAILURE(); }), 0);
}

TEST(Netlink, SaysWhatTheKernelRefuses) {
    Netlink netlink;
    int error = 0;
    ifinfomsg wanted{};
    wanted.ifi_index = 0x7fffffff;
    NetlinkRequest request(RTM_GETLINK, 0, wanted);
    EXPECT_FALSE(netlink.ask(request, error));
    EXPECT_EQ(error, ENODEV);
    EXPECT_FALSE(netlink.receive());
    EXPECT_EQ(errno, EAGAIN);
}

TEST(NetlinkMessage, IsNeverReadBeyondItsEnd) {
    // A header of 2 bytes, an attribute of 3 with its padding, one that is longer than the rest.
    const std::vector<std::uint8_t> bytes{9, 9, 0, 0, 7, 0, 5, 0, 1, 2, 3, 0, 200, 0, 6, 0, 1};
    const NetlinkMessage message(nlmsghdr{}, bytes);
    EXPECT_EQ(message.attribute(2, 5).size(), 3U);
    EXPECT_TRUE(message.attribute(2, 6).empty());
    EXPECT_EQ(message.number(2, 5), 0U);
    const NetlinkMessage short_one(nlmsghdr{}, Bytes(bytes).first(1));
    EXPECT_EQ(short_one.header<ifinfomsg>().ifi_index, 0);
    EXPECT_TRUE(short_one.attribute(2, 5).empty());
}

} // namespace
} // namespace reprise
