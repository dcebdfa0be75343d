#include "controller/trace_feed.hh"
#include "core/dns_message.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace reprise::controller {
namespace {

using Raw = std::vector<std::uint8_t>;

void put16(Raw& out, unsigned value) {
    out.push_back(static_cast<std::uint8_t>(value >> 8U));
    out.push_back(static_cast<std::uint8_t>(value));
}

/// A DNS query for the root's NS with the given flags word.
Raw dns(unsigned flags) {
    Raw message;
    for (const unsigned word : {7U, flags, 1U, 0U, 0U, 0U}) {
        put16(message, word);
    }
    message.push_back(0);
    put16(message, 2);
    put16(message, 1);
    return message;
}

Raw udp(const Raw& message, unsigned source_port, unsigned destination_port) {
    Raw out;
    put16(out, source_port);
    put16(out, destination_port);
    put16(out, static_cast<unsigned>(8 + message.size()));
    put16(out, 0);
    out.insert(out.end(), message.begin(), message.end());
    return out;
}

Raw ipv4(std::uint8_t host, const Raw& payload) {
    Raw out{0x45, 0};
    put16(out, static_cast<unsigned>(20 + payload.size()));
    out.insert(out.end(), {0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, host, 198, 51, 100, 1});
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

Raw ipv6(const Raw& payload) {
    Raw out{0x60, 0, 0, 0};
    put16(out, static_cast<unsigned>(payload.size()));
    out.insert(out.end(), {17, 64});
    for (const std::uint8_t last : {1, 2}) {
        Raw address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
        out.insert(out.end(), address.begin(), address.end());
    }
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

template <typename T> void put(std::ofstream& file, T value) {
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

class TraceFeedTest : public testing::Test {
protected:
    TraceFeedTest() {
        std::string pattern = testing::TempDir() + "/feedXXXXXX";
        folder_ = mkdtemp(pattern.data());
        options_.trace = folder_ + "/trace.pcap";
        options_.results = folder_;
    }

    ~TraceFeedTest() override { std::filesystem::remove_all(folder_); }

    void write(const std::vector<Raw>& packets) const {
        std::ofstream file(options_.trace, std::ios::binary);
        put(file, std::uint32_t{0xa1b23c4d});
        put(file, std::uint32_t{0x00040002});
        put(file, std::uint64_t{0});
        put(file, std::uint32_t{65535});
        put(file, std::uint32_t{101});
        for (std::uint32_t i = 0; i < packets.size(); ++i) {
            put(file, std::uint32_t{1'000'000'000});
            put(file, i);
            put(file, static_cast<std::uint32_t>(packets[i].size()));
            put(file, static_cast<std::uint32_t>(packets[i].size()));
            file.write(reinterpret_cast<const char*>(packets[i].data()),
                       static_cast<std::streamsize>(packets[i].size()));
        }
    }

    std::string folder_;
    Options options_;
};

TEST_F(TraceFeedTest, NumbersEveryQueryAndSaysWhyOneIsSkipped) {
    const Servers v4_only = parse_servers({"198.18.0.53"}, 53);
    write({ipv4(1, udp(dns(0x0100), 1000, 53)), ipv4(2, udp(dns(0x2800), 1000, 53)),
           ipv6(udp(dns(0), 1000, 53)), ipv4(1, udp(dns(0x8400), 53, 1000)),
           ipv4(3, udp(dns(0), 1000, 53))});
    TraceFeed feed(options_, v4_only);
    Query query;
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 0U);
    EXPECT_EQ(query.source_id, 0U);
    EXPECT_EQ(query.trace_time, 1'000'000'000 * kSecond);
    ASSERT_TRUE(feed.next(query));
    EXPECT_EQ(query.sequence, 3U);
    EXPECT_EQ(query.source_id, 1U);
    EXPECT_EQ(query.source.address.text(), "192.0.2.3");
    EXPECT_FALSE(feed.next(query));
    EXPECT_EQ(feed.read(), 4U);
    EXPECT_EQ(feed.responses(), 1U);
    EXPECT_EQ(feed.skipped().at("opcode"), 1U);
    EXPECT_EQ(feed.skipped().at("no_ipv6_server"), 1U);
    feed.finish();
    std::stringstream sources;
    sources << std::ifstream(folder_ + "/sources.csv").rdbuf();
    EXPECT_EQ(sources.str(), "id,address\n0,192.0.2.1\n1,192.0.2.3\n");
}

TEST_F(TraceFeedTest, AllOpcodesAreHandedOutWhenAsked) {
    options_.all_opcodes = true;
    write({ipv4(2, udp(dns(0x2800), 1000, 53)), ipv6(udp(dns(0x2000), 1000, 53))});
    TraceFeed feed(options_, parse_servers({"198.18.0.53", "fd00::53"}, 53));
    Query query;
    EXPECT_TRUE(feed.next(query));
    EXPECT_TRUE(feed.next(query));
    EXPECT_FALSE(feed.next(query));
    EXPECT_TRUE(feed.skipped().empty());
}

} // namespace
} // namespace reprise::controller
