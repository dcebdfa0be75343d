// The querier process against servers and parents with faults, in an own network namespace.
#include "core/testing/netns.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/parent.hh"
#include "querier/testing/result_reader.hh"
#include "querier/testing/servers.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

class FaultsTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = reprise::testing::enter_network_namespace(); !why.empty()) {
            GTEST_SKIP() << why;
        }
    }

    /// One more query; `name` and `id` as given.
    void add(Nanoseconds offset, Transport transport, std::uint32_t source = 0,
             std::uint16_t id = 7, const char* name = "a.example.") {
        messages_.push_back(make_message(id, name));
        queries_.push_back(
            make_query(queries_.size(), offset, messages_.back(), source, transport));
    }

    void add_many(int count, Transport transport, Nanoseconds gap) {
        for (int i = 0; i < count; ++i) {
            add(i * gap, transport, 0, static_cast<std::uint16_t>(i));
        }
    }

    /// Plays everything to the end.
    int play(Parent& parent, const wire::Options& options = quick()) {
        begin(parent, options);
        parent.end_of_trace();
        const int status = parent.finish();
        EXPECT_TRUE(parent.reported());
        return status;
    }

    void begin(Parent& parent, const wire::Options& options = quick()) {
        parent.setup(options);
        parent.give(queries_);
        parent.start(400 * kMillisecond);
    }

    static wire::Options quick() {
        wire::Options options = Parent::options();
        set(options, "timeout_s", "0.5");
        return options;
    }

    ScratchFolder results_;
    std::deque<std::vector<std::uint8_t>> messages_;
    std::vector<Query> queries_;
};

// UDP

TEST_F(FaultsTest, DuplicateAnswersAreCounted) {
    const UdpServer server([](Bytes query) {
        return std::vector<Message>{make_reply(query), make_reply(query), make_reply(query)};
    });
    Parent parent(results_.path());
    add_many(20, Transport::kUdp, kMillisecond);
    add(kSecond, Transport::kUdp, 0, 999);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 21U);
    EXPECT_GE(parent.final_counts().duplicate_answers, 40U);
    EXPECT_EQ(parent.final_counts().unmatched, 0U);
}

TEST_F(FaultsTest, ForgedAnswersMatchNothing) {
    const UdpServer server([](Bytes query) {
        Message forged = make_reply(query);
        forged[0] ^= 0x55U;
        return std::vector<Message>{forged,
                                    {1, 2, 3},
                                    make_reply(make_message(7, "b.example.")),
                                    Message(query.begin(), query.end())};
    });
    Parent parent(results_.path());
    add(0, Transport::kUdp);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().timed_out, 1U);
    EXPECT_EQ(parent.final_counts().unmatched, 3U);
    EXPECT_EQ(parent.final_counts().malformed, 1U);
    const RqContent content = parent.records();
    EXPECT_EQ(content.records.at(0).latency, -1);
    EXPECT_EQ(content.records.at(0).rcode, 0xffff);
    EXPECT_TRUE(parent.answers().at(0).reply.empty());
}

/// Only what can be read and has the question ends a query, over whatever it travels.
TEST_F(FaultsTest, MalformedAnswersLeaveTheirQueriesOpen) {
    const auto answers = [](Bytes query) {
        std::vector<Message> all = broken_replies(query);
        all.push_back(make_reply(make_message(query[1], "b.example.")));
        if (query[1] % 2 == 0) {
            all.push_back(make_reply(query, 3));
        }
        return all;
    };
    const UdpServer udp(answers);
    const TcpServer tcp([&](int, int, Bytes query) {
        std::vector<Message> all = answers(query);
        std::ranges::transform(all, all.begin(), framed);
        return Act{.send = all};
    });
    Parent parent(results_.path());
    for (std::uint16_t id = 0; id < 4; ++id) {
        add(0, id < 2 ? Transport::kUdp : Transport::kTcp, id, id);
    }
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 2U);
    EXPECT_EQ(parent.final_counts().timed_out, 2U);
    EXPECT_EQ(parent.final_counts().malformed, 20U);
    EXPECT_EQ(parent.final_counts().unmatched, 4U);
    for (const RqRecord& record : parent.records().records) {
        EXPECT_EQ(record.rcode, record.source % 2 == 0 ? 3 : 0xffff);
    }
}

TEST_F(FaultsTest, HeaderOnlyAndCaseChangedAnswersMatch) {
    const UdpServer server([](Bytes query) {
        Message reply = make_reply(query, 1);
        if (query[1] == 1) {
            reply.resize(12);
            reply[5] = 0;
        } else {
            reply[13] = 'A';
        }
        return std::vector<Message>{reply};
    });
    Parent parent(results_.path());
    add(0, Transport::kUdp, 0, 1);
    add(0, Transport::kUdp, 0, 2);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 2U);
    EXPECT_EQ(parent.records().records.at(0).rcode, 1);
    EXPECT_EQ(parent.records().records.at(0).reply_size, 12U);
}

TEST_F(FaultsTest, AClosedPortTimesOutAndCountsIcmp) {
    Parent parent(results_.path());
    add_many(50, Transport::kUdp, 5 * kMillisecond);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().timed_out, 50U);
    EXPECT_EQ(parent.final_counts().sent, 50U);
    const std::string statistics = parent.records().statistics;
    EXPECT_EQ(statistics.find(R"("unreachable":0)"), std::string::npos) << statistics;
}

TEST_F(FaultsTest, EvictsIdleSocketsWhenDescriptorsRunShort) {
    const UdpServer server([](Bytes query) { return std::vector<Message>{make_reply(query)}; });
    Parent parent(results_.path(), {.descriptors = 80});
    for (std::uint32_t i = 0; i < 200; ++i) {
        add(i * kMillisecond, Transport::kUdp, i);
    }
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 200U);
    const std::string statistics = parent.records().statistics;
    EXPECT_EQ(statistics.find(R"("sockets_evicted":0)"), std::string::npos) << statistics;
}

TEST_F(FaultsTest, WaitsWhenAllSocketsAreBusy) {
    const UdpServer server([](Bytes query) {
        return query[0] == 0 ? std::vector<Message>{} : std::vector<Message>{make_reply(query)};
    });
    Parent parent(results_.path(), {.descriptors = 80});
    for (std::uint32_t i = 0; i < 40; ++i) {
        add(0, Transport::kUdp, i, static_cast<std::uint16_t>(i < 20 ? 1 : 0x101));
    }
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 20U);
    EXPECT_EQ(parent.final_counts().timed_out, 20U);
    const RqContent content = parent.records();
    EXPECT_NE(content.records.at(39).marks & kMarkBehind, 0);
}

// TCP

TEST_F(FaultsTest, SplitAndMergedTcpAnswersOutOfOrder) {
    std::vector<Message> held;
    const TcpServer server([&](int, int index, Bytes query) {
        held.push_back(framed(make_reply(query)));
        if (index % 4 != 3) {
            return Act{};
        }
        Message all; // last first, in one piece but for its first byte and its end
        for (; !held.empty(); held.pop_back()) {
            all.insert(all.end(), held.back().begin(), held.back().end());
        }
        return Act{.send = {{all.begin(), all.begin() + 1},
                            {all.begin() + 1, all.end() - 5},
                            {all.end() - 5, all.end()}}};
    });
    Parent parent(results_.path());
    add_many(40, Transport::kTcp, kMillisecond);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 40U);
    EXPECT_EQ(parent.final_counts().unmatched, 0U);
    const auto answers = parent.answers();
    for (std::uint8_t i = 0; i < 40; ++i) {
        EXPECT_EQ(answers.at(i).reply.at(1), i);
    }
}

TEST_F(FaultsTest, EqualIdsOnAConnectionAreRewrittenAndRestored) {
    std::mutex mutex;
    std::vector<int> ids;
    std::vector<Message> held;
    const TcpServer server([&](int, int index, Bytes query) {
        const std::scoped_lock lock(mutex);
        ids.push_back(query[0] << 8 | query[1]);
        held.push_back(framed(make_reply(query)));
        return index < 2 ? Act{} : Act{.send = held};
    });
    Parent parent(results_.path());
    add(0, Transport::kTcp, 0, 0xffff, "a.example.");
    add(0, Transport::kTcp, 0, 0xffff, "b.example.");
    add(0, Transport::kTcp, 0, 0xffff, "a.example.");
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 3U);
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(ids, (std::vector<int>{0xffff, 0, 1}));
    const RqContent content = parent.records();
    EXPECT_EQ(content.records.at(0).marks & kMarkIdRewritten, 0);
    EXPECT_NE(content.records.at(1).marks & kMarkIdRewritten, 0);
    const auto answers = parent.answers();
    for (const AnswerContent& answer : answers) {
        EXPECT_EQ(answer.query.at(0), 0xff);
        EXPECT_EQ(answer.reply.at(0), 0xff);
        EXPECT_EQ(answer.reply.at(1), 0xff);
        EXPECT_EQ(answer.reply.at(13), answer.query.at(13));
    }
}

TEST_F(FaultsTest, AResetConnectionIsTriedOnceMore) {
    const TcpServer server([&](int connection, int, Bytes query) {
        return connection == 1 ? Act{.send = {}, .reset = true}
                               : Act{.send = {framed(make_reply(query))}};
    });
    Parent parent(results_.path());
    add(0, Transport::kTcp);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 1U);
    EXPECT_EQ(parent.final_counts().retried, 1U);
    const RqRecord record = parent.records().records.at(0);
    EXPECT_EQ(record.retries, 1);
    EXPECT_EQ(record.connection, 2U);
    EXPECT_NE(record.marks & kMarkRetried, 0);
    EXPECT_NE(record.marks & kMarkOpened, 0);
}

TEST_F(FaultsTest, AServerThatAlwaysClosesFailsConnections) {
    const TcpServer server([](int, int, Bytes) { return Act{.send = {}, .close = true}; });
    Parent parent(results_.path());
    add_many(30, Transport::kTcp, kMillisecond);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().connection_failed, 30U);
    EXPECT_EQ(parent.final_counts().retried, 30U);
    EXPECT_EQ(parent.final_counts().ended(), 30U);
}

TEST_F(FaultsTest, ARefusedConnectionFails) {
    Parent parent(results_.path());
    add_many(10, Transport::kTcp, 5 * kMillisecond);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().connection_failed, 10U);
    EXPECT_EQ(parent.final_counts().sent, 0U);
    const RqRecord record = parent.records().records.at(0);
    EXPECT_EQ(record.send, 0);
    EXPECT_EQ(record.status, Status::kConnectionFailed);
}

TEST_F(FaultsTest, FurtherMessagesOfATransferAreDuplicates) {
    const TcpServer server([](int, int, Bytes query) {
        const Message reply = framed(make_reply(query));
        return Act{.send = {reply, reply, reply}};
    });
    Parent parent(results_.path());
    add(0, Transport::kTcp);
    add(500 * kMillisecond, Transport::kTcp, 0, 8);
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().answered, 2U);
    EXPECT_GE(parent.final_counts().duplicate_answers, 2U);
}

TEST_F(FaultsTest, LargeQueriesCrossAFullSocketBuffer) {
    const TcpServer server(
        [](int, int, Bytes query) { return Act{.send = {framed(make_reply(query.first(27)))}}; });
    Parent parent(results_.path());
    for (std::uint16_t i = 0; i < 200; ++i) {
        add(0, Transport::kTcp, 0, i);
        messages_.back().resize(65535, 0);
        queries_.back().message = messages_.back();
    }
    wire::Options options = quick();
    set(options, "timeout_s", "20");
    EXPECT_EQ(play(parent, options), 0);
    EXPECT_EQ(parent.final_counts().answered, 200U);
}

TEST_F(FaultsTest, OtherTransportsAndOversizeAreAccountedFor) {
    Parent parent(results_.path());
    add(0, Transport::kTls);
    add(0, Transport::kQuic);
    add(0, Transport::kUdp);
    messages_.back().resize(65535, 0);
    queries_.back().message = messages_.back();
    EXPECT_EQ(play(parent), 0);
    EXPECT_EQ(parent.final_counts().send_failed, 1U);
    EXPECT_EQ(parent.final_counts().connection_failed, 1U) << "no TLS was set up";
    EXPECT_EQ(parent.final_counts().skipped, 1U);
    EXPECT_EQ(parent.records().records.at(2).reason, SkipReason::kOversize);
}

// The parent

TEST_F(FaultsTest, AnAbortEndsEveryQueryInOrder) {
    Parent parent(results_.path());
    add_many(10, Transport::kUdp, kMillisecond);
    add(3600 * kSecond, Transport::kUdp, 0, 99);
    wire::Options options = quick();
    set(options, "timeout_s", "60");
    begin(parent, options);
    ASSERT_TRUE(parent.pump_until([&] { return parent.counts().sent == 10; }));
    parent.abort("enough");
    EXPECT_EQ(parent.finish(), 1);
    ASSERT_TRUE(parent.reported());
    EXPECT_FALSE(parent.report().clean());
    EXPECT_EQ(parent.report().because(), "enough");
    EXPECT_EQ(parent.final_counts().timed_out, 10U);
    EXPECT_EQ(parent.final_counts().skipped, 1U);
    const RqContent content = parent.records();
    EXPECT_TRUE(content.whole);
    EXPECT_NE(content.records.at(0).marks & kMarkEndedEarly, 0);
    EXPECT_EQ(content.records.at(10).reason, SkipReason::kAborted);
}

TEST_F(FaultsTest, AParentThatIsGoneStopsTheQuerier) {
    Parent parent(results_.path());
    add(3600 * kSecond, Transport::kUdp);
    begin(parent);
    ASSERT_TRUE(parent.pump_until([&] { return parent.clock_replies() > 1; }));
    parent.close();
    EXPECT_EQ(parent.finish(), 1);
    const RqContent content = parent.records();
    EXPECT_TRUE(content.whole);
    EXPECT_EQ(content.records.size(), 1U);
}

TEST_F(FaultsTest, AFullDiskEndsTheRunWithReadableRecords) {
    const UdpServer server([](Bytes query) { return std::vector<Message>{make_reply(query)}; });
    Parent parent(results_.path(), {.file_size = 100'000});
    add_many(3000, Transport::kUdp, 100 * kMicrosecond);
    wire::Options options = quick();
    set(options, "answers", "false");
    EXPECT_EQ(play(parent, options), 1);
    EXPECT_NE(parent.aborted().find("File too large; free space or choose another"),
              std::string::npos)
        << parent.aborted();
    EXPECT_EQ(parent.final_counts().ended(), parent.final_counts().received);
    EXPECT_GT(parent.records().records.size(), 0U); // fewer where many wait for their answer
    EXPECT_FALSE(parent.records().whole);
}

TEST_F(FaultsTest, AnUnwritableFolderIsOneLine) {
    Parent parent(results_.path() + "/missing");
    add(0, Transport::kUdp);
    begin(parent);
    parent.end_of_trace();
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.aborted().find("results: create "), 0U) << parent.aborted();
}

TEST_F(FaultsTest, WrongOptionsAreRefused) {
    Parent parent(results_.path());
    wire::Options options = quick();
    set(options, "source_mode", "mopped");
    parent.setup(options);
    EXPECT_EQ(parent.finish(), 1);
    EXPECT_EQ(parent.aborted(),
              "replay.source_mode mopped: give one of ports, addresses, mapped, packet");
}

TEST_F(FaultsTest, AnEmptyTraceIsClean) {
    Parent parent(results_.path());
    EXPECT_EQ(play(parent), 0);
    EXPECT_TRUE(parent.report().clean());
    EXPECT_TRUE(parent.records().whole);
}

} // namespace
} // namespace reprise::querier::testing
