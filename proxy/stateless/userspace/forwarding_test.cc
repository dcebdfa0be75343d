#include "core/base/error.hh"
#include "proxy/stateless/userspace/redirect.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace reprise::proxy::stateless {
namespace {

/// A folder like /proc/sys/net.
class ForwardingTest : public ::testing::Test {
protected:
    ForwardingTest() {
        put("ipv4/conf/eth0/forwarding", "0");
        put("ipv6/conf/all/forwarding", "0");
        put("ipv6/conf/eth0/force_forwarding", "0");
        put("ipv6/conf/eth0/accept_ra", "1");
        put("ipv6/conf/eth1/accept_ra", "0");
    }

    ~ForwardingTest() override { std::filesystem::remove_all(root_); }

    void put(const std::string& name, const char* value) const {
        const std::filesystem::path path = root_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << value << '\n';
    }

    [[nodiscard]] char get(const std::string& name) const {
        std::ifstream in(root_ / name);
        return static_cast<char>(in.get());
    }

    [[nodiscard]] Change needed(bool v6) const { return needed_change("eth0", v6, root_); }

    void make(bool v6, Change change) const { make_change("eth0", v6, change, root_); }

    void undo(bool v6, Change change) const { undo_change("eth0", v6, change, root_); }

    std::filesystem::path root_ =
        std::filesystem::temp_directory_path() / ("reprise-forwarding-" + std::to_string(getpid()));
};

TEST_F(ForwardingTest, IsOfTheInterfaceAlone) {
    for (const bool v6 : {false, true}) {
        const std::string file =
            v6 ? "ipv6/conf/eth0/force_forwarding" : "ipv4/conf/eth0/forwarding";
        EXPECT_EQ(needed(v6), Change::kInterface);
        make(v6, Change::kInterface);
        EXPECT_EQ(get(file), '1');
        EXPECT_EQ(needed(v6), Change::kNone);
        undo(v6, Change::kInterface);
        EXPECT_EQ(get(file), '0');
    }
    EXPECT_EQ(get("ipv6/conf/all/forwarding"), '0');
    EXPECT_EQ(get("ipv6/conf/eth0/accept_ra"), '1');
}

TEST_F(ForwardingTest, IsLeftAloneWhereItIsOn) {
    put("ipv6/conf/all/forwarding", "1");
    EXPECT_EQ(needed(true), Change::kNone);
    make(true, Change::kNone);
    undo(true, Change::kNone);
    EXPECT_EQ(get("ipv6/conf/all/forwarding"), '1');
}

TEST_F(ForwardingTest, OfOlderKernelsIsOfAllInterfaces) {
    std::filesystem::remove(root_ / "ipv6/conf/eth0/force_forwarding");
    EXPECT_EQ(needed(true), Change::kAll);
    make(true, Change::kAll);
    EXPECT_EQ(get("ipv6/conf/all/forwarding"), '1');
    undo(true, Change::kAll);
    EXPECT_EQ(get("ipv6/conf/all/forwarding"), '0');
}

TEST_F(ForwardingTest, RoutesLearnedFromRoutersStay) {
    EXPECT_THAT(hosts_of_routers(root_), ::testing::ElementsAre("eth0"));
    for (const char* const each : {"eth0", "eth1"}) {
        follow_routers(each, true, root_);
    }
    EXPECT_EQ(get("ipv6/conf/eth0/accept_ra"), '2');
    EXPECT_EQ(get("ipv6/conf/eth1/accept_ra"), '0');
    follow_routers("eth0", false, root_);
    EXPECT_EQ(get("ipv6/conf/eth0/accept_ra"), '1');
}

TEST_F(ForwardingTest, RoutesByADeviceThatNobodyReadsDoNotCount) {
    put("ipv4/conf/tun0/ignore_routes_with_linkdown", "0");
    follow_carrier("tun0", root_);
    EXPECT_EQ(get("ipv4/conf/tun0/ignore_routes_with_linkdown"), '1');
    EXPECT_FALSE(std::filesystem::exists(root_ / "ipv6/conf/tun0"));
}

TEST_F(ForwardingTest, SaysWhatCannotBeWritten) {
    EXPECT_THROW(make_change("eth7", false, Change::kInterface, root_), SystemError);
    undo_change("eth7", false, Change::kInterface, root_); // the interface may be gone
}

} // namespace
} // namespace reprise::proxy::stateless
