// The querier process in its source modes, played fast, and in trouble.
#include "core/testing/netns.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/modes.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/servers.hh"
#include "querier/testing/wire.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Modes, BothModesTest, ::testing::Values("ports", "addresses"));

// Addresses

TEST_F(ModesTest, TheServerSeesTheTracesAddresses) {
    const UdpServer v4(kServer, UdpServer::echo());
    const UdpServer v6("[::1]:5300", UdpServer::echo());
    Parent parent(results_.path());
    add_sources(150, kMillisecond / 10);
    add_sources(150, kMillisecond / 10, 6);
    play(parent, in_mode("addresses"));
    EXPECT_EQ(parent.final_counts().answered, 300U);
    std::set<IpAddress> expected;
    for (const Query& query : queries_) {
        expected.insert(query.source.address);
    }
    std::set<IpAddress> found = addresses(v4.seen());
    EXPECT_EQ(found.size(), 150U);
    found.merge(addresses(v6.seen()));
    EXPECT_EQ(found, expected);
}

TEST_F(ModesTest, TcpLeavesFromTheTracesAddress) {
    const TcpServer server(
        [](int, int, Bytes query) { return Act{.send = {framed(make_reply(query))}}; });
    Parent parent(results_.path());
    for (std::uint32_t source = 0; source < 20; ++source) {
        add(0, source, Transport::kTcp);
        add(50 * kMillisecond, source, Transport::kTcp);
    }
    play(parent, in_mode("addresses"));
    EXPECT_EQ(parent.final_counts().answered, 40U);
    std::set<IpAddress> found;
    for (const Endpoint& peer : server.peers()) {
        found.insert(peer.address);
    }
    EXPECT_EQ(found.size(), 20U);
    EXPECT_TRUE(found.contains(queries_.at(38).source.address));
}

TEST_F(ModesTest, OnlyTheServersWordsCount) {
    const UdpServer server(kServer, [](const std::vector<Seen>& seen) {
        const Message reply = make_reply(seen.back().query);
        std::vector<Say> all{{.message = reply, .from = From::kOtherPort},
                             {.message = reply, .from = From::kOtherAddress}};
        if (seen.size() % 2 == 0) { // the true answer comes after the forged ones
            all.push_back({.message = reply, .after = 20 * kMillisecond});
            all.push_back({.message = reply, .after = 30 * kMillisecond});
        }
        return all;
    });
    Parent parent(results_.path());
    add_sources(20, kMillisecond);
    play(parent, in_mode("addresses"));
    EXPECT_EQ(parent.final_counts().answered, 10U);
    EXPECT_EQ(parent.final_counts().timed_out, 10U);
    EXPECT_EQ(parent.final_counts().unmatched, 40U);
    EXPECT_EQ(parent.final_counts().duplicate_answers, 10U);
}

TEST_F(ModesTest, LateAnswersAreCountedByAddress) {
    const UdpServer server(kServer, UdpServer::echo(150 * kMillisecond));
    Parent parent(results_.path());
    wire::Options options = in_mode("addresses");
    set(options, "timeout_s", "0.1");
    add_sources(20, kMillisecond);
    add(400 * kMillisecond, 99); // keeps the querier there
    play(parent, options);
    EXPECT_EQ(parent.final_counts().timed_out, 21U);
    EXPECT_EQ(parent.final_counts().late, 20U);
    EXPECT_EQ(parent.final_counts().unmatched, 0U);
}

TEST_F(ModesTest, AClosedPortTimesOutAndIcmpIsCounted) {
    Parent parent(results_.path());
    add_sources(50, kMillisecond);
    add_sources(50, 0); // in one system call
    play(parent, in_mode("addresses"));
    EXPECT_EQ(parent.final_counts().timed_out, 100U);
    EXPECT_EQ(parent.final_counts().sent, 100U);
    EXPECT_EQ(statistic(parent, "unreachable"), 100);
}

class FragmentsTest : public ModesTest, public ::testing::WithParamInterface<std::uint8_t> {};

TEST_P(FragmentsTest, ALargeQueryLeavesInFragments) {
    reprise::testing::ip("link set lo mtu 1500");
    const bool v4 = GetParam() == 4;
    const UdpServer server(v4 ? kServer : "[::1]:5300", UdpServer::echo());
    const long before = v4 ? reprise::testing::snmp_counter("Ip", "FragCreates") : 0;
    Parent parent(results_.path());
    for (const size_t size : {100UL, 5000UL, 100UL, 1472UL, 1473UL}) {
        add(static_cast<Nanoseconds>(queries_.size()) * kMillisecond, 1, Transport::kUdp,
            GetParam());
        messages_.back().resize(size, 0);
        queries_.back().message = messages_.back();
    }
    play(parent, in_mode("addresses"));
    EXPECT_EQ(parent.final_counts().answered, 5U);
    EXPECT_EQ(statistic(parent, "unreachable"), 0);
    for (const Seen& one : server.seen()) {
        EXPECT_EQ(one.query, messages_.at(one.query.at(1)));
    }
    if (v4) { // four and two, there and back
        EXPECT_EQ(reprise::testing::snmp_counter("Ip", "FragCreates") - before, 12);
    }
    reprise::testing::ip("link set lo mtu 65536");
}

INSTANTIATE_TEST_SUITE_P(Families, FragmentsTest, ::testing::Values(4, 6));

TEST_F(ModesTest, MappedSourcesAreDistinctUntilThePrefixIsUsedUp) {
    const UdpServer udp(kServer, UdpServer::echo());
    const TcpServer tcp(
        [](int, int, Bytes query) { return Act{.send = {framed(make_reply(query))}}; });
    Parent parent(results_.path(), {}, {"--source-prefix", "10.9.0.0/29"});
    add_sources(10, kMillisecond);
    for (std::uint32_t source = 0; source < 10; ++source) {
        add(100 * kMillisecond, source, Transport::kTcp);
    }
    play(parent, in_mode("mapped"));
    EXPECT_EQ(parent.final_counts().answered, 12U);
    EXPECT_EQ(parent.final_counts().skipped, 8U);
    const RqContent content = parent.records();
    for (const RqRecord& record : content.records) {
        EXPECT_EQ(record.reason, record.source < 6 ? SkipReason::kNone : SkipReason::kNoAddress);
        EXPECT_EQ(record.send == 0, record.source >= 6);
    }
    const std::set<IpAddress> found = addresses(udp.seen());
    EXPECT_EQ(found.size(), 6U);
    EXPECT_EQ(found.begin()->text(), "10.9.0.1");
    EXPECT_EQ(found.rbegin()->text(), "10.9.0.6");
    std::set<IpAddress> connected;
    for (const Endpoint& peer : tcp.peers()) {
        connected.insert(peer.address);
    }
    EXPECT_EQ(connected, found);
}

TEST_F(ModesTest, MappedNeedsAPrefixOfTheFamily) {
    Parent without(results_.path());
    without.setup(in_mode("mapped"));
    EXPECT_EQ(without.finish(), 1);
    EXPECT_EQ(without.aborted(), "source mode mapped needs --source-prefix at the distributor");
    Parent parent(results_.path(), {}, {"--source-prefix", "10.9.0.0/29"});
    add(0, 1, Transport::kUdp, 6);
    play(parent, in_mode("mapped"));
    EXPECT_EQ(parent.records().records.at(0).reason, SkipReason::kNoAddress);
}

TEST_P(BothModesTest, AFamilyWithoutAServerFailsToBeSent) {
    const UdpServer server(kServer, UdpServer::echo());
    Parent parent(results_.path());
    wire::Options options = in_mode(GetParam());
    options.clear_server_v6();
    add(0, 1, Transport::kUdp, 6);
    add(kMillisecond, 2);
    play(parent, options);
    EXPECT_EQ(parent.final_counts().send_failed, 1U);
    EXPECT_EQ(parent.final_counts().answered, 1U);
}

class AnswersTest : public ModesTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(AnswersTest, KeepQueryAndReply) {
    const UdpServer server(kServer, UdpServer::echo(kMillisecond));
    Parent parent(results_.path(), {}, {"--source-prefix", "10.8.0.0/16"});
    for (std::uint32_t n = 0; n < 600; ++n) { // over several blocks, which are gone by then
        add(Nanoseconds{n} * 200 * kMicrosecond, n % 50);
    }
    play(parent, in_mode(GetParam()));
    EXPECT_EQ(parent.final_counts().answered, 600U);
    const auto answers = parent.answers();
    ASSERT_EQ(answers.size(), 600U);
    for (const AnswerContent& answer : answers) {
        EXPECT_EQ(answer.query, messages_.at(answer.sequence));
        EXPECT_EQ(answer.reply, make_reply(answer.query));
    }
}

INSTANTIATE_TEST_SUITE_P(Modes, AnswersTest, ::testing::Values("ports", "addresses", "mapped"));

// Fast

TEST_P(BothModesTest, FastRespectsTheLimitInFlight) {
    const UdpServer server(kServer, UdpServer::echo(2 * kMillisecond));
    Parent parent(results_.path());
    wire::Options options = in_mode(GetParam());
    set(options, "fast", "true");
    set(options, "in_flight", "16");
    for (std::uint32_t n = 0; n < 2000; ++n) {
        add(n * kSecond, n % 64); // half an hour of trace
    }
    play(parent, options);
    EXPECT_EQ(parent.final_counts().answered, 2000U);
    EXPECT_EQ(parent.records().records.at(0).due, 0);
    EXPECT_EQ(statistic(parent, "behind_schedule"), 0);
    EXPECT_LE(server.most_open(), 16U);
    EXPECT_GT(server.most_open(), 8U);
}

// Trouble

/// Nothing comes behind the replies that found no room, which would tell of them.
TEST_P(BothModesTest, RepliesDroppedBehindTheLastOneThatCameAreCounted) {
    constexpr long kReplies = 1500; // 98 MB; the larger one of the buffers takes 67 MB
    Parent parent(results_.path());
    const UdpServer server(kServer, [&](const std::vector<Seen>& seen) {
        parent.stop_process();
        Message reply = make_reply(seen.back().query);
        reply.resize(65'000);
        return std::vector<Say>(kReplies, Say{.message = reply});
    });
    const long sent_before = reprise::testing::snmp_counter("Udp", "OutDatagrams");
    const long dropped_before = reprise::testing::snmp_counter("Udp", "RcvbufErrors");
    add(0);
    begin(parent, in_mode(GetParam()));
    parent.end_of_trace();
    ASSERT_TRUE(parent.pump_until([&] {
        return reprise::testing::snmp_counter("Udp", "OutDatagrams") == sent_before + 1 + kReplies;
    }));
    parent.continue_process();
    EXPECT_EQ(parent.finish(), 1);
    const long dropped = reprise::testing::snmp_counter("Udp", "RcvbufErrors") - dropped_before;
    EXPECT_GT(dropped, 0);
    EXPECT_EQ(statistic(parent, "receive_overflows"), dropped);
    EXPECT_TRUE(parent.report().because().starts_with(std::to_string(dropped) + " replies were"))
        << parent.report().because();
}

TEST_P(BothModesTest, AnAbortBeforeTheStartSkipsEverything) {
    Parent parent(results_.path());
    add_sources(300, kMillisecond);
    wire::Options options = in_mode(GetParam());
    set(options, "dependent", "true");
    parent.setup(options);
    parent.give(queries_);
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().received == 300; }));
    parent.abort("enough");
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.final_counts().skipped, 300U);
    EXPECT_EQ(parent.records().records.size(), 300U);
}

/// More queries than a querier takes.
std::vector<Query> too_many(Bytes message, std::uint64_t credit) {
    std::vector<Query> queries;
    queries.reserve(credit + 300);
    for (std::uint64_t n = 0; n < credit + 300; ++n) {
        queries.push_back(make_query(n, kSecond, message));
    }
    return queries;
}

class CreditTest : public ModesTest, public ::testing::WithParamInterface<bool> {};

TEST_P(CreditTest, AParentThatSendsTooMuchIsToldSo) {
    const bool waiting = GetParam(); // behind each other, or before they are due
    const UdpServer server(kServer, UdpServer::silence());
    Parent parent(results_.path());
    wire::Options options = in_mode("addresses");
    set(options, "answers", "false");
    set(options, "dependent", waiting ? "true" : "false");
    set(options, "in_flight", "1");
    set(options, "timeout_s", "60");
    set(options, "max_lateness_s", "3600");
    const auto message = make_message(1, ".");
    parent.setup(options);
    if (waiting) {
        parent.start(-kSecond);
    }
    parent.give(too_many(message, parent.hello().credit()));
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.aborted(), "the parent sent more queries than it was granted");
    ASSERT_TRUE(parent.reported());
    const Counts counts = parent.final_counts();
    EXPECT_GT(counts.received, parent.hello().credit());
    EXPECT_EQ(counts.received, counts.skipped + counts.timed_out);
    EXPECT_EQ(parent.records().records.size(), counts.received);
}

INSTANTIATE_TEST_SUITE_P(Waiting, CreditTest, ::testing::Bool());

TEST_F(ModesTest, RefusedQueriesAreSentInOrder) {
    // Nobody answers for the server's address on this wire: what is sent waits in the kernel until
    // the socket's buffer is full, and goes when the test makes the neighbor known.
    const Wire wire("192.0.2.2");
    Parent parent(results_.path());
    wire::Options options = in_mode("addresses");
    options.set_server_v4("192.0.2.2:53");
    set(options, "in_flight", "900");
    set(options, "timeout_s", "5");
    for (std::uint32_t n = 0; n < 2000; ++n) {
        add(n < 700 ? 0 : Nanoseconds{n} * 10 * kMicrosecond, n % 5);
    }
    begin(parent, options);
    parent.end_of_trace();
    const auto sent = [&] { return parent.counts().sent; };
    ASSERT_TRUE(parent.pump_until([&] { return sent() > 0; }));
    EXPECT_LT(sent(), 700U);
    parent.stop_process(); // or the kernel would let new packets overtake those that waited
    wire.make_known();
    parent.continue_process();
    ASSERT_TRUE(parent.pump_until([&] { return sent() >= 900; }));
    parent.abort("seen enough");
    parent.finish();
    std::map<std::uint32_t, std::uint16_t> last;
    for (const auto& [source, ident] : wire.seen(900)) {
        EXPECT_EQ(ident % 5, source);
        EXPECT_TRUE(!last.contains(source) || last[source] + 5 == ident) << source << " " << ident;
        last[source] = ident;
    }
    const RqContent content = parent.records();
    EXPECT_NE(content.records.at(699).marks & kMarkBehind, 0);
}

/// Opening it at the last moment would make the first query late.
TEST_F(ModesTest, TheFirstSocketIsOpenBeforeTheStartAndSaysNothing) {
    const UdpServer server(kServer, UdpServer::echo());
    Parent parent(results_.path());
    add(0);
    parent.setup(in_mode("ports"));
    parent.give(queries_);
    parent.start(20 * kSecond);
    const auto connected = [] {
        std::ifstream file("/proc/net/udp");
        const std::string sockets((std::istreambuf_iterator<char>(file)), {});
        return sockets.find(" 0100007F:14B4 01 ") != std::string::npos; // 127.0.0.1:5300
    };
    ASSERT_TRUE(parent.pump_until(connected));
    parent.abort("seen enough");
    parent.finish();
    EXPECT_TRUE(server.seen().empty());
}

TEST_F(ModesTest, WhatTheNetworkNeverTakesFails) {
    const Wire wire("192.0.2.2");
    Parent parent(results_.path());
    wire::Options options = in_mode("addresses");
    options.set_server_v4("192.0.2.2:53");
    set(options, "max_lateness_s", "2");
    add_sources(700); // all are taken off the schedule at once
    play(parent, options);
    const Counts counts = parent.final_counts();
    EXPECT_GT(counts.send_failed, 0U);
    EXPECT_EQ(counts.send_failed + counts.timed_out, 700U);
    EXPECT_EQ(counts.sent, counts.timed_out);
}

} // namespace
} // namespace reprise::querier::testing
