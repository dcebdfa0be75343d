// The querier process with queries that depend on each other: hedged pairs, and a
// source's queries that wait.
#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/query.hh"
#include "core/replay.pb.h"
#include "core/result_file.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/modes.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/responder.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/udp_server.hh"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

// Hedges

TEST_F(ModesTest, AQuickPeerWinsAgainstASlowServer) {
    const UdpServer server(kServer, UdpServer::echo(200 * kMillisecond));
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    add_sources(20, kMillisecond);
    play(parent, hedged());
    EXPECT_EQ(parent.report().counts().answered(), 20U);
    EXPECT_EQ(parent.report().counts().sent(), 20U);
    EXPECT_EQ(parent.report().counts().duplicate_answers(), 0U);
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

TEST_F(ModesTest, AnAnswerInTimeIsNotHedged) {
    const UdpServer server(kServer, UdpServer::echo());
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    add_sources(20, kMillisecond);
    wire::Options options = hedged();
    options.set_hedge_after_ns(400 * kMillisecond);
    play(parent, options);
    EXPECT_TRUE(peer.seen().empty());
    EXPECT_TRUE(hedges().empty());
    EXPECT_EQ(parent.records().records.at(0).marks & kMarkHedged, 0);
}

TEST_F(ModesTest, TheServerMayAnswerBeforeAPeerThatIsSlower) {
    const UdpServer server(kServer, UdpServer::echo(100 * kMillisecond));
    const UdpServer peer(kPeer, UdpServer::echo(200 * kMillisecond));
    Parent parent(results_.path());
    add_sources(10, kMillisecond);
    play(parent, hedged("addresses"));
    EXPECT_EQ(parent.report().counts().answered(), 10U);
    const std::vector<Hedge> rows = hedges();
    ASSERT_EQ(rows.size(), 10U);
    for (const Hedge& row : rows) {
        EXPECT_EQ(row.won, 0U);
        EXPECT_GT(row.received[0], 0);
        EXPECT_GT(row.received[1], row.received[0]);
    }
    EXPECT_EQ(parent.records().records.at(0).marks & (kMarkHedged | kMarkHedgeWon), kMarkHedged);
}

TEST_P(BothModesTest, BothSilentIsOneTimeoutEach) {
    const UdpServer server(kServer, UdpServer::silence());
    Parent parent(results_.path());
    add_sources(10, kMillisecond);
    play(parent, hedged(GetParam())); // the peer's port is closed
    EXPECT_EQ(parent.report().counts().timed_out(), 10U);
    const std::vector<Hedge> rows = hedges();
    ASSERT_EQ(rows.size(), 10U);
    EXPECT_EQ(rows[3].received, (std::array<long, 2>{0, 0}));
    EXPECT_EQ(rows[3].won, 0U);
    const RqRecord record = parent.records().records.at(3);
    EXPECT_EQ(record.latency, -1);
    EXPECT_NE(record.marks & kMarkHedged, 0);
}

TEST_F(ModesTest, WithoutDescriptorsTheOriginalGoesOnAlone) {
    const UdpServer server(kServer, UdpServer::silence());
    const UdpServer peer(kPeer, UdpServer::silence());
    Parent parent(results_.path(), {.descriptors = 74}); // ten sockets
    add_sources(8, kMillisecond);
    play(parent, hedged());
    EXPECT_EQ(parent.report().counts().timed_out(), 8U);
    EXPECT_EQ(peer.seen().size(), 2U);
    EXPECT_EQ(statistic(parent, "hedged"), 2);
    EXPECT_EQ(hedges().size(), 2U);
    long marked = 0;
    for (const RqRecord& record : parent.records().records) {
        marked += (record.marks & kMarkHedged) != 0 ? 1 : 0;
    }
    EXPECT_EQ(marked, 2);
}

TEST_F(ModesTest, AnAbortEndsHedgedQueriesOnce) {
    const UdpServer server(kServer, UdpServer::silence());
    const UdpServer peer(kPeer, UdpServer::silence());
    Parent parent(results_.path());
    wire::Options options = hedged();
    options.set_timeout_ns(60 * kSecond);
    add_sources(10, kMillisecond);
    add(3600 * kSecond, 99);
    begin(parent, options);
    ASSERT_TRUE(parent.pump_until([&] { return peer.seen().size() == 10; }));
    parent.abort("enough");
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.report().counts().timed_out(), 10U);
    EXPECT_EQ(parent.report().counts().skipped(), 1U);
    const RqContent content = parent.records();
    ASSERT_EQ(content.records.size(), 11U);
    EXPECT_NE(content.records.at(0).marks & kMarkEndedEarly, 0);
    EXPECT_EQ(hedges().size(), 10U);
}

TEST_F(ModesTest, HedgedQueriesCountTheirPlacesInFlight) {
    const UdpServer server(kServer, UdpServer::silence());
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    wire::Options options = hedged("addresses");
    options.set_in_flight(3);
    options.set_timeout_ns(100 * kMillisecond);
    add_sources(30);
    play(parent, options);
    EXPECT_EQ(parent.report().counts().answered(), 30U);
    EXPECT_EQ(hedges().size(), 30U);
}

// Dependent queries

TEST_F(ModesTest, ASourcesNextQueryWaits) {
    const UdpServer server(kServer, UdpServer::echo(20 * kMillisecond));
    Parent parent(results_.path());
    for (std::uint32_t n = 0; n < 40; ++n) {
        add(n * kMicrosecond, n % 4);
    }
    play(parent, dependent());
    EXPECT_EQ(parent.report().counts().answered(), 40U);
    EXPECT_LE(server.most_open(), 4U);
    EXPECT_EQ(statistic(parent, "waited"), 36);
    const RqContent content = parent.records();
    for (size_t n = 4; n < 40; ++n) {
        const RqRecord& record = content.records.at(n);
        EXPECT_GE(record.send, content.records.at(n - 4).receive);
        EXPECT_NE(record.marks & kMarkWaited, 0);
        EXPECT_EQ(record.marks & kMarkBehind, 0);
    }
    EXPECT_EQ(content.records.at(0).marks & kMarkWaited, 0);
}

TEST_F(ModesTest, EveryKindOfEndLetsTheNextGo) {
    const UdpServer udp(kServer, [](const std::vector<Seen>& seen) {
        return seen.back().query.at(1) == 0
                   ? std::vector<Say>{} // the first one's answer never comes
                   : std::vector<Say>{{.message = make_reply(seen.back().query)}};
    });
    Parent parent(results_.path());
    add(0);
    add(0, 0, Transport::kTcp); // refused
    add(0, 0, Transport::kQuic);
    add(0);
    messages_.back().resize(65535, 0);
    queries_.back().message = messages_.back();
    add(0);
    add(0, 1, Transport::kQuic); // nothing before it
    add(0, 1);
    play(parent, dependent());
    const RqContent content = parent.records();
    std::vector<Status> ends;
    ends.reserve(content.records.size());
    for (const RqRecord& record : content.records) {
        ends.push_back(record.status);
    }
    EXPECT_EQ(ends, (std::vector<Status>{Status::kTimedOut, Status::kConnectionFailed,
                                         Status::kSendFailed, Status::kSkipped, Status::kAnswered,
                                         Status::kSendFailed, Status::kAnswered}));
    EXPECT_GE(content.records.at(4).send - content.records.at(0).send, 450 * kMillisecond);
}

TEST_F(ModesTest, AnAbortAccountsForTheWaiting) {
    const UdpServer server(kServer, UdpServer::silence());
    Parent parent(results_.path());
    wire::Options options = dependent();
    options.set_timeout_ns(60 * kSecond);
    for (std::uint32_t n = 0; n < 600; ++n) {
        add(0, n % 20);
    }
    begin(parent, options);
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().sent() == 20; }));
    parent.abort("enough");
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.report().counts().timed_out(), 20U);
    EXPECT_EQ(parent.report().counts().skipped(), 580U);
    EXPECT_EQ(parent.records().records.size(), 600U);
}

TEST_F(ModesTest, DependentHedgedQueriesGoOnWithTheFirstAnswer) {
    const UdpServer server(kServer, UdpServer::silence());
    const UdpServer peer(kPeer, UdpServer::echo());
    Parent parent(results_.path());
    wire::Options options = hedged("addresses");
    options.set_dependent(true);
    for (int n = 0; n < 6; ++n) {
        add(0);
    }
    play(parent, options);
    EXPECT_EQ(parent.report().counts().answered(), 6U);
    EXPECT_EQ(idents(peer.seen()), (std::vector<std::uint16_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(hedges().size(), 6U);
}

} // namespace
} // namespace reprise::querier::testing
