// The querier process with queries that depend on each other: hedged pairs, and a
// source's queries that wait.
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/testing/modes.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/servers.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

// Hedges

TEST_F(ModesTest, AQuickPeerWinsAgainstASlowServer) {
    const UdpServer server(kServer, UdpServer::echo(kSecond));
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    add_sources(20, kMillisecond);
    wire::Options options = hedged();
    set(options, "timeout_s", "5");
    play(parent, options);
    EXPECT_EQ(parent.final_counts().answered, 20U);
    EXPECT_EQ(parent.final_counts().sent, 20U);
    EXPECT_EQ(parent.final_counts().duplicate_answers, 0U);
    EXPECT_EQ(peer.seen().size(), 20U);
    EXPECT_EQ(statistic(parent, "hedged"), 20);
    EXPECT_EQ(statistic(parent, "hedges_won"), 20);
    const std::vector<Hedge> rows = hedges();
    ASSERT_EQ(rows.size(), 20U);
    const RqContent content = parent.records();
    for (size_t n = 0; n < rows.size(); ++n) {
        const RqRecord& record = content.records.at(n);
        EXPECT_EQ(record.marks & (kMarkHedged | kMarkHedgeWon), kMarkHedged | kMarkHedgeWon);
        EXPECT_EQ(rows[n].sequence, n);
        EXPECT_EQ(rows[n].sent[0], record.send);
        EXPECT_GE(rows[n].sent[1] - rows[n].sent[0], 50 * kMillisecond);
        EXPECT_EQ(rows[n].received[1], record.receive);
        EXPECT_EQ(record.latency, record.receive - record.send);
        EXPECT_GT(rows[n].received[0], rows[n].received[1]);
        EXPECT_EQ(rows[n].won, 1U);
    }
}

TEST_P(BothModesTest, BothSilentIsOneTimeoutEach) {
    const UdpServer server(kServer, UdpServer::silence());
    Parent parent(results_.path());
    add_sources(10, kMillisecond);
    play(parent, hedged(GetParam())); // the peer's port is closed
    EXPECT_EQ(parent.final_counts().timed_out, 10U);
    const std::vector<Hedge> rows = hedges();
    ASSERT_EQ(rows.size(), 10U);
    EXPECT_EQ(rows[3].received, (std::array<long, 2>{0, 0}));
    EXPECT_EQ(rows[3].won, 0U);
    const RqRecord record = parent.records().records.at(3);
    EXPECT_EQ(record.latency, -1);
    EXPECT_NE(record.marks & kMarkHedged, 0);
}

/// The server's port is closed, and there is hardly a moment without an ICMP error to be read.
TEST_P(BothModesTest, CopiesOfWhatIsRefusedLeaveInTime) {
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    for (std::uint32_t n = 0; n < 2000; ++n) {
        add(n * 250 * kMicrosecond, n % 300);
    }
    wire::Options options = hedged(GetParam());
    set(options, "timeout_s", "3");
    play(parent, options);
    std::vector<Nanoseconds> after;
    for (const Hedge& row : hedges()) {
        after.push_back(row.sent[1] - row.sent[0]);
    }
    ASSERT_EQ(after.size(), 2000U);
    const auto median = after.begin() + 1000;
    std::ranges::nth_element(after, median);
    EXPECT_LT(*median, 500 * kMillisecond) << "they are due after 50 ms";
}

TEST_F(ModesTest, WithoutDescriptorsTheOriginalGoesOnAlone) {
    const UdpServer server(kServer, UdpServer::silence());
    const UdpServer peer(kPeer, UdpServer::silence());
    Parent parent(results_.path(), {.descriptors = 74}); // ten sockets
    add_sources(8, kMillisecond);
    play(parent, hedged());
    EXPECT_EQ(parent.final_counts().timed_out, 8U);
    EXPECT_EQ(peer.seen().size(), 2U);
    EXPECT_EQ(statistic(parent, "hedged"), 2);
    EXPECT_EQ(hedges().size(), 2U);
    long marked = 0;
    for (const RqRecord& record : parent.records().records) {
        marked += (record.marks & kMarkHedged) != 0 ? 1 : 0;
    }
    EXPECT_EQ(marked, 2);
}

} // namespace
} // namespace reprise::querier::testing
