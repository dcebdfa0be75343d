#include "controller/options.hh"
#include "controller/selection.hh"
#include "core/rules/engine/catalog.hh"
#include "core/trace/batch.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::controller {
namespace {

/// From address number `i`, which is the source id too.
Query query_of(std::uint32_t i) {
    static const std::vector<std::uint8_t> kMessage(12);
    const std::array<std::uint8_t, 4> bytes{10, static_cast<std::uint8_t>(i >> 16U),
                                            static_cast<std::uint8_t>(i >> 8U),
                                            static_cast<std::uint8_t>(i)};
    Query query;
    query.source.address = IpAddress::v4(bytes.data());
    query.source_id = i;
    query.message = kMessage;
    return query;
}

class SelectionTest : public ::testing::Test {
protected:
    Skip judge(const char* source, unsigned opcode = 0, Transport transport = Transport::kUdp) {
        Selection selection(options_, parse_servers(servers_, 53));
        const std::array<std::uint8_t, 17> bytes{
            0, 7, static_cast<std::uint8_t>(opcode << 3U), 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2,
            0, 1};
        Query query;
        query.source.address = *IpAddress::parse(source);
        query.transport = transport;
        query.message = bytes;
        return selection.judge(query);
    }

    Options options_;
    std::vector<std::string> servers_{"198.18.0.53", "fd00::53"};
};

TEST_F(SelectionTest, OpcodesThatChangeServers) {
    EXPECT_EQ(judge("192.0.2.1", 0), Skip::kNone);
    EXPECT_EQ(judge("192.0.2.1", 4), Skip::kNotify);
    EXPECT_EQ(judge("192.0.2.1", 5), Skip::kUpdate);
    options_.replay.all_opcodes = true;
    EXPECT_EQ(judge("192.0.2.1", 5), Skip::kNone);
}

TEST_F(SelectionTest, TransportsThatAreNotPlayed) {
    for (const Transport transport : {Transport::kQuic, Transport::kHttps}) {
        options_.replay.transport = "trace";
        EXPECT_EQ(judge("192.0.2.1", 0, transport), Skip::kTransport);
        options_.replay.transport = "tls";
        EXPECT_EQ(judge("192.0.2.1", 0, transport), Skip::kNone);
    }
    options_.replay.transport = "trace";
    EXPECT_EQ(judge("192.0.2.1", 0, Transport::kTls), Skip::kNone);
    EXPECT_STREQ(skip_name(Skip::kTransport), "transport");
    options_.replay.skip_sources = {"192.0.2.0/24"};
    EXPECT_EQ(judge("192.0.2.1", 0, Transport::kQuic), Skip::kSourcePrefix);
}

TEST_F(SelectionTest, AFamilyWithoutAServer) {
    servers_ = {"198.18.0.53"};
    EXPECT_EQ(judge("2001:db8::1"), Skip::kNoIpv6Server);
    servers_ = {"fd00::53"};
    EXPECT_EQ(judge("192.0.2.1"), Skip::kNoIpv4Server);
}

TEST_F(SelectionTest, SkippedPrefixes) {
    options_.replay.skip_sources = {"198.18.0.0/15", "fd00:198::/32"};
    EXPECT_EQ(judge("198.19.1.1"), Skip::kSourcePrefix);
    EXPECT_EQ(judge("fd00:198:19::1"), Skip::kSourcePrefix);
    EXPECT_EQ(judge("198.20.0.1"), Skip::kNone);
}

TEST_F(SelectionTest, UnusableSourcesMatterOnlyWhereTheServerSeesThem) {
    for (const char* source : {"127.0.0.1", "224.0.0.1", "fe80::1", "198.18.0.53", "fd00::53"}) {
        for (const char* mode : {"ports", "mapped"}) {
            options_.replay.source_mode = mode;
            EXPECT_EQ(judge(source), Skip::kNone) << source;
        }
        for (const char* mode : {"addresses", "packet"}) {
            options_.replay.source_mode = mode;
            EXPECT_EQ(judge(source), Skip::kSourceUnusable) << source;
        }
    }
    EXPECT_EQ(judge("192.0.2.1"), Skip::kNone);
}

TEST_F(SelectionTest, APeersAddressIsNoSource) {
    options_.replay.source_mode = "addresses";
    options_.replay.peers = {"198.18.0.54"};
    EXPECT_EQ(judge("198.18.0.54"), Skip::kSourceUnusable);
}

TEST_F(SelectionTest, CollapsesRetransmits) {
    options_.replay.collapse_retransmits = true;
    Selection selection(options_, parse_servers(servers_, 53));
    const std::array<std::uint8_t, 17> bytes{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1};
    Query query;
    query.source = *Endpoint::parse("192.0.2.1:1000");
    query.message = bytes;
    EXPECT_EQ(selection.judge(query), Skip::kNone);
    EXPECT_EQ(selection.judge(query), Skip::kRetransmit);
}

/// Of 40,000 addresses those that are not left out.
std::set<std::uint32_t> sampled(const Options& options) {
    Selection selection(options, parse_servers({"198.18.0.53"}, 53));
    std::set<std::uint32_t> taken;
    for (std::uint32_t i = 0; i < 40'000; ++i) {
        Query query = query_of(i);
        if (selection.judge(query) == Skip::kNone) {
            taken.insert(i);
        }
    }
    return taken;
}

TEST_F(SelectionTest, ASampleHoldsTheShareAskedAndALargerOneASmaller) {
    std::set<std::uint32_t> before;
    for (const auto& [text, count] : std::map<std::string, double>{
             {"0.1", 4'000}, {"20%", 8'000}, {"50%", 20'000}, {"90%", 36'000}}) {
        options_.replay.sample_sources = text;
        const auto now = sampled(options_);
        EXPECT_NEAR(static_cast<double>(now.size()), count, 400) << text;
        EXPECT_TRUE(std::ranges::includes(now, before)) << text;
        before = now;
    }
}

TEST_F(SelectionTest, ASampleIsOfTheSourcesThatTheMutatorKeeps) {
    options_.replay.sample_sources = "7%";
    const auto taken = sampled(options_);
    rules::RuleSet set;
    set.rules.push_back(rules::parse_rule_option("keep", "share=7,by=source"));
    Batch batch;
    for (std::uint32_t i = 0; i < 40'000; ++i) {
        batch.queries.push_back(query_of(i));
    }
    rules::make_rules(set).front()->apply(batch);
    EXPECT_EQ(batch.queries.size(), taken.size());
    EXPECT_TRUE(std::ranges::all_of(
        batch.queries, [&](const Query& query) { return taken.contains(query.source_id); }));
}

TEST(SkipCounts, NamesWhatIsNotZero) {
    SkipCounts counts;
    counts.add(Skip::kSample);
    counts.add(Skip::kSample);
    counts.add(Skip::kFrom);
    EXPECT_EQ(counts.sum(), 3U);
    const std::map<std::string, std::uint64_t> want{{"from", 1}, {"sample", 2}};
    EXPECT_EQ(counts.named(), want);
    EXPECT_STREQ(skip_name(Skip::kDuration), "duration");
}

TEST_F(SelectionTest, UnusableAreSourcesThatCanNeverBeAnswered) {
    options_.replay.source_mode = "addresses";
    for (const char* bad :
         {"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
          "255.255.255.255", "::", "::1", "ff02::1", "fe80::1", "::ffff:192.0.2.1"}) {
        EXPECT_EQ(judge(bad), Skip::kSourceUnusable) << bad;
    }
    for (const char* good : {"1.1.1.1", "10.0.0.1", "192.0.2.1", "223.255.255.255", "2001:db8::1",
                             "fd00::1", "169.254.1.1"}) {
        EXPECT_EQ(judge(good), Skip::kNone) << good;
    }
}

} // namespace
} // namespace reprise::controller

// NOLINTEND(bugprone-unchecked-optional-access)
