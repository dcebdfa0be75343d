// The querier process against a real NSD on loopback, in an own network namespace.
#include "core/testing/netns.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/nsd.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

/// A mix of queries that keeps their messages alive.
class Load {
public:
    void add(Nanoseconds offset, std::uint32_t source, Transport transport, std::uint8_t family) {
        const auto sequence = queries_.size();
        const char name[] = {static_cast<char>('a' + sequence % 26),
                             '.',
                             'e',
                             'x',
                             'a',
                             'm',
                             'p',
                             'l',
                             'e',
                             '.',
                             '\0'};
        messages_.push_back(make_message(static_cast<std::uint16_t>(sequence * 7), name));
        queries_.push_back(
            make_query(sequence, offset, messages_.back(), source, transport, family));
    }

    [[nodiscard]] const std::vector<Query>& queries() const { return queries_; }

private:
    std::deque<std::vector<std::uint8_t>> messages_;
    std::vector<Query> queries_;
};

/// `count` queries `gap` apart, from 20 sources, families in turn.
Load make_load(int count, Nanoseconds gap, Transport transport) {
    Load load;
    for (int i = 0; i < count; ++i) {
        const auto source = static_cast<std::uint32_t>(i % 20);
        load.add(i * gap, source, transport, source % 2 == 0 ? 4 : 6);
    }
    return load;
}

class NsdTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (!Nsd::installed()) {
            GTEST_SKIP() << "nsd is not installed";
        }
        if (const std::string why = reprise::testing::enter_network_namespace(); !why.empty()) {
            GTEST_SKIP() << why;
        }
    }

    /// Plays the load to the end; the querier must end with `status`.
    static void play(Parent& parent, const Load& load, const wire::Options& options) {
        parent.setup(options);
        parent.give(load.queries());
        parent.end_of_trace();
        parent.start(500 * kMillisecond);
    }

    ScratchFolder results_;
};

TEST_F(NsdTest, AnswersEveryUdpQueryOfBothFamilies) {
    const Nsd nsd({});
    Parent parent(results_.path());
    const Load load = make_load(2000, 200 * kMicrosecond, Transport::kUdp);
    wire::Options options = Parent::options();
    set(options, "timeout_s", "5"); // of a server that waits for a processor
    play(parent, load, options);
    EXPECT_EQ(parent.finish(), 0);
    ASSERT_TRUE(parent.reported());
    EXPECT_TRUE(parent.report().clean()) << parent.report().because();
    EXPECT_EQ(parent.final_counts().received, 2000U);
    EXPECT_EQ(parent.final_counts().sent, 2000U);
    EXPECT_EQ(parent.final_counts().answered, 2000U);
    EXPECT_EQ(parent.credit(), parent.given());
    EXPECT_GT(parent.clock_replies(), 0U);
    EXPECT_EQ(parent.hello().name(), "here/0");

    const RqContent content = parent.records();
    EXPECT_TRUE(content.whole);
    ASSERT_EQ(content.records.size(), 2000U);
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const RqRecord& record = content.records[i];
        EXPECT_EQ(record.sequence, i);
        EXPECT_EQ(record.status, Status::kAnswered);
        EXPECT_EQ(record.rcode, 0);
        EXPECT_EQ(record.trace_time, load.queries()[i].time);
        EXPECT_GE(record.receive, record.send);
        EXPECT_EQ(record.latency, record.receive - record.send);
        EXPECT_EQ(record.connection, 0U);
        EXPECT_GT(record.reply_size, record.query_size);
    }
    const auto answers = parent.answers();
    ASSERT_EQ(answers.size(), 2000U);
    EXPECT_EQ(answers[7].query[1], 49);
    EXPECT_EQ(answers[7].reply[1], 49);
}

TEST_F(NsdTest, ReusesOneTcpConnectionForEachSource) {
    const Nsd nsd({});
    Parent parent(results_.path());
    const Load load = make_load(2000, 200 * kMicrosecond, Transport::kTcp);
    play(parent, load, Parent::options());
    EXPECT_EQ(parent.finish(), 0);
    ASSERT_TRUE(parent.reported());
    EXPECT_EQ(parent.final_counts().answered, 2000U);
    EXPECT_EQ(parent.final_counts().retried, 0U);
    const RqContent content = parent.records();
    ASSERT_EQ(content.records.size(), 2000U);
    EXPECT_NE(content.statistics.find(R"("opened":20,"reused_queries":1980,"peak_open":20)"),
              std::string::npos)
        << content.statistics;
    for (std::uint64_t i = 0; i < 2000; ++i) {
        const RqRecord& record = content.records[i];
        EXPECT_EQ(record.connection, i % 20 + 1);
        EXPECT_EQ((record.marks & kMarkOpened) != 0, i < 20);
        EXPECT_EQ((record.marks & kMarkReused) != 0, i >= 20);
        EXPECT_EQ(record.connect > 0, i < 20);
        EXPECT_GE(record.latency, record.connect);
    }
}

TEST_F(NsdTest, ReconnectsWhereTheServerLimitsQueriesAConnection) {
    const Nsd nsd({.tcp_timeout = 30, .tcp_query_count = 2});
    Parent parent(results_.path());
    const Load load = make_load(200, 10 * kMillisecond, Transport::kTcp);
    play(parent, load, Parent::options());
    EXPECT_EQ(parent.finish(), 0);
    const Counts counts = parent.final_counts();
    EXPECT_EQ(counts.answered, 200U);
    EXPECT_EQ(counts.connection_failed, 0U);
    EXPECT_EQ(counts.ended(), 200U);
    const std::string statistics = parent.records().statistics;
    EXPECT_EQ(statistics.find(R"("opened":20,)"), std::string::npos) << statistics;
}

TEST_F(NsdTest, ReconnectsAfterTheServersIdleTimeout) {
    const Nsd nsd({.tcp_timeout = 1});
    Parent parent(results_.path());
    Load load;
    load.add(0, 0, Transport::kTcp, 4);
    load.add(3 * kSecond, 0, Transport::kTcp, 4);
    play(parent, load, Parent::options());
    EXPECT_EQ(parent.finish(), 0);
    const RqContent content = parent.records();
    ASSERT_EQ(content.records.size(), 2U);
    EXPECT_EQ(content.records[1].status, Status::kAnswered);
    EXPECT_EQ(content.records[1].connection, 2U);
    EXPECT_EQ(content.records[1].retries, 0);
    EXPECT_NE(content.statistics.find(R"("closed_by_server":1)"), std::string::npos)
        << content.statistics;
}

TEST_F(NsdTest, ClosesIdleConnectionsItself) {
    const Nsd nsd({});
    Parent parent(results_.path());
    Load load;
    load.add(0, 0, Transport::kTcp, 4);
    load.add(2 * kSecond, 0, Transport::kTcp, 4);
    wire::Options options = Parent::options();
    set(options, "idle_timeout_s", "0.5");
    play(parent, load, options);
    EXPECT_EQ(parent.finish(), 0);
    const RqContent content = parent.records();
    ASSERT_EQ(content.records.size(), 2U);
    EXPECT_EQ(content.records[1].connection, 2U);
    EXPECT_NE(content.statistics.find(R"("closed_by_server":0,"closed_idle":1)"), std::string::npos)
        << content.statistics;
}

TEST_F(NsdTest, AccountsForEveryQueryWhenTheServerDies) {
    Nsd nsd({});
    Parent parent(results_.path());
    Load load;
    for (int i = 0; i < 1500; ++i) {
        const auto source = static_cast<std::uint32_t>(i % 20);
        load.add(i * kMillisecond, source, i % 3 == 0 ? Transport::kTcp : Transport::kUdp,
                 source % 2 == 0 ? 4 : 6);
    }
    play(parent, load, Parent::options());
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().answered > 200; }));
    nsd.kill();
    EXPECT_EQ(parent.finish(), 0);
    const Counts counts = parent.final_counts();
    EXPECT_EQ(counts.received, 1500U);
    EXPECT_EQ(counts.ended(), 1500U);
    EXPECT_GT(counts.timed_out, 0U);
    EXPECT_GT(counts.connection_failed, 0U);
    const RqContent content = parent.records();
    EXPECT_TRUE(content.whole);
    EXPECT_EQ(content.records.size(), 1500U);
}

TEST_F(NsdTest, CountsLateAnswersOfAStoppedServer) {
    const Nsd nsd({});
    Parent parent(results_.path());
    const Load load = make_load(400, 10 * kMillisecond, Transport::kUdp);
    wire::Options options = Parent::options();
    set(options, "timeout_s", "0.3");
    play(parent, load, options);
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().answered > 50; }));
    nsd.stop();
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().timed_out > 20; }));
    nsd.go_on();
    EXPECT_EQ(parent.finish(), 0);
    const Counts counts = parent.final_counts();
    EXPECT_EQ(counts.ended(), 400U);
    EXPECT_GT(counts.timed_out, 20U);
    EXPECT_GT(counts.late, 0U);
    EXPECT_EQ(counts.unmatched, 0U);
    EXPECT_EQ(counts.duplicate_answers, 0U);
}

} // namespace
} // namespace reprise::querier::testing
