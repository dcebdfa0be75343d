// Pending queries, messages, keys, stamps, options: the small values.
#include "core/base/error.hh"
#include "core/wire/counts.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/process.hh"
#include "querier/results/results.hh"
#include "querier/schedule/matcher.hh"
#include "querier/schedule/pending_queries.hh"
#include "querier/testing/messages.hh"
#include "querier/udp/udp_carriers.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

using testing::make_message;
using testing::make_query;

TEST(PendingQueries, AreBoundedAndUsedAgain) {
    PendingQueries queries(2);
    const auto message = make_message(7, "a.example.");
    const std::uint32_t a = queries.take(make_query(1, 0, message));
    queries.take(make_query(2, 0, message));
    EXPECT_EQ(queries.take(make_query(3, 0, message)), kNone);
    queries[a].record.retries = 1;
    queries.give_back(a);
    EXPECT_EQ(queries.used(), 1U);
    EXPECT_EQ(queries.take(make_query(4, 0, message)), a);
    EXPECT_EQ(queries[a].record.sequence, 4U);
    EXPECT_EQ(queries[a].record.retries, 0);
    EXPECT_EQ(queries[a].wire_id, 7);
}

TEST(PendingQueries, ACopyHasTheQueryAndAMessageOfItsOwn) {
    PendingQueries queries(3);
    const auto message = make_message(7, "a.example.");
    const std::uint32_t a = queries.take(make_query(9, 5, message, 3));
    queries.keep(a);
    queries[a].wire_id = 99;
    queries[a].in_flight = queries[a].keyed = queries[a].written = true;
    queries[a].place = 4;
    const std::uint32_t b = queries.copy(a, 1);
    EXPECT_EQ(queries[b].record.sequence, 9U);
    EXPECT_EQ(queries[b].record.source, 3U);
    EXPECT_EQ(queries[b].source, queries[a].source);
    EXPECT_EQ(queries[b].question, queries[a].question);
    EXPECT_EQ(queries[b].wire_id, 7);
    EXPECT_EQ(queries[b].place, kNone);
    EXPECT_FALSE(queries[b].in_flight || queries[b].keyed || queries[b].written);
    queries.give_back(a);
    EXPECT_TRUE(std::ranges::equal(queries[b].bytes(), message));
}

TEST(PendingQueries, OnlyKeptMessagesOutliveTheirBlock) {
    PendingQueries queries(2);
    std::vector<std::uint8_t> block = make_message(7, "a.example.");
    const auto message = block;
    const std::uint32_t kept = queries.take(make_query(1, 0, block));
    const std::uint32_t borrowed = queries.take(make_query(2, 0, block));
    queries.keep(kept);
    queries.keep(kept);
    queries.let_go(kept);
    queries.let_go(borrowed);
    std::ranges::fill(block, std::uint8_t{0});
    EXPECT_TRUE(std::ranges::equal(queries[kept].bytes(), message));
    EXPECT_EQ(queries[borrowed].message, nullptr);
    EXPECT_TRUE(queries.full());
    queries.give_back(borrowed);
    EXPECT_FALSE(queries.full());
}

TEST(Question, HashIgnoresCaseOfNamesOnly) {
    const auto hash = [](std::string_view name, std::uint16_t type) {
        return question_hash(make_message(1, name, type));
    };
    EXPECT_EQ(hash("ABC.example.", 1), hash("abc.EXAMPLE.", 1));
    EXPECT_NE(hash("abc.example.", 0x41), hash("abc.example.", 0x61));
    EXPECT_NE(hash("abc.example.", 1), hash("abd.example.", 1));
    EXPECT_NE(hash(".", 1), 0U);
    EXPECT_EQ(question_hash({}), 0U);
    EXPECT_EQ(question_hash(std::vector<std::uint8_t>(12, 0)), 0U);
}

TEST(Question, IdOfAShortMessageIsZero) {
    const std::vector<std::uint8_t> one{9};
    EXPECT_EQ(message_id(one), 0);
    EXPECT_EQ(message_id(make_message(0x1234, ".")), 0x1234);
}

TEST(StampClock, ConvertsKernelStamps) {
    StampClock stamps;
    stamps.sample({.monotonic = 1000, .realtime = 5'000'000});
    EXPECT_EQ(stamps.convert(4'999'900), 900);
    EXPECT_EQ(stamps.convert(0), 1000);
    EXPECT_EQ(stamps.to_realtime(900), 4'999'900);
    EXPECT_FALSE(stamps.stepped());
}

TEST(StampClock, SeesStepsButNotDrift) {
    StampClock stamps;
    stamps.sample({.monotonic = 0, .realtime = kSecond});
    stamps.sample({.monotonic = kSecond, .realtime = 2 * kSecond + 900 * kMicrosecond});
    EXPECT_FALSE(stamps.stepped());
    stamps.sample({.monotonic = kSecond + kMillisecond, .realtime = kSecond});
    EXPECT_TRUE(stamps.stepped());
    EXPECT_EQ(stamps.convert(12345), kSecond + kMillisecond);
    // What waited in a socket meanwhile may have been stamped before the step.
    stamps.sample(
        {.monotonic = kSecond + 90 * kMillisecond, .realtime = kSecond + 89 * kMillisecond});
    EXPECT_TRUE(stamps.stepped());
    stamps.sample(
        {.monotonic = kSecond + 101 * kMillisecond, .realtime = kSecond + 100 * kMillisecond});
    EXPECT_FALSE(stamps.stepped());
    EXPECT_EQ(stamps.convert(kSecond + 99 * kMillisecond), kSecond + 100 * kMillisecond);
    EXPECT_EQ(stamps.steps(), 1U);
}

TEST(Resources, KeepAReserveOfDescriptors) {
    Resources resources(Resources::kReserve + 2);
    EXPECT_TRUE(resources.take_descriptor());
    EXPECT_TRUE(resources.take_descriptor());
    EXPECT_FALSE(resources.take_descriptor());
    resources.give_back_descriptor();
    EXPECT_TRUE(resources.take_descriptor());
}

/// Counts the queries that are refused.
class Refusals final : public CarrierEvents {
public:
    void on_reply(Owner /*owner*/, const Reply& /*reply*/) override {}

    void on_sent(std::uint32_t /*pending*/, const SendCall& /*call*/) override {}

    void on_refused(std::uint32_t pending, SendResult /*result*/) override {
        refused.push_back(pending);
    }

    void on_failed(std::uint32_t /*pending*/, Status /*status*/) override {}

    std::vector<std::uint32_t> refused;
};

TEST(SendBatch, WhatIsRefusedHasLeftIt) {
    KernelNetwork network;
    Resources resources(Resources::kReserve + 1);
    PendingQueries queries(3);
    Matcher matcher(queries, 3, kSecond);
    const StampClock stamps;
    Statistics statistics;
    Refusals events;
    SendBatch batch({{.network = network,
                      .resources = resources,
                      .queries = queries,
                      .matcher = matcher,
                      .stamps = stamps,
                      .statistics = statistics},
                     events},
                    true);
    const auto message = make_message(7, "a.example.");
    for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
        batch.add(queries.take(make_query(sequence, 0, message)));
        batch.refuse(ENOBUFS);
        EXPECT_EQ(batch.size(), 0U);
    }
    EXPECT_EQ(events.refused, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(EventTag, SurvivesPacking) {
    const EventTag tag{
        .kind = EventKind::kCarrier, .carrier = 41, .generation = 0x1234, .place = 0xfedcba98};
    const EventTag back = EventTag::unpack(tag.pack());
    EXPECT_EQ(back.kind, EventKind::kCarrier);
    EXPECT_EQ(back.carrier, 41);
    EXPECT_EQ(back.place, 0xfedcba98);
    EXPECT_EQ(back.generation, 0x1234);
    EXPECT_EQ(EventTag{}.pack(), 0U) << "the timer's";
}

TEST(Options, ReplayOptionsAreChecked) {
    wire::Options good;
    good.set_server_v4("192.0.2.1:53");
    const ReplayOptions options = replay_options(good);
    EXPECT_EQ(options.servers.of(4), Endpoint::parse("192.0.2.1:53"));
    EXPECT_FALSE(options.servers.of(6));
    EXPECT_EQ(options.in_flight, 262144U);
    EXPECT_EQ(options.waiter.early, std::nullopt);

    wire::Options bad = good;
    bad.set_server_v6("::1");
    EXPECT_THROW(replay_options(bad), UsageError);
    bad = good;
    (*bad.mutable_settings())["replay.source_mode"] = "mopped";
    EXPECT_THROW(replay_options(bad), UsageError);
    bad = good;
    (*bad.mutable_settings())["replay.unheard_of"] = "1";
    EXPECT_THROW(replay_options(bad), UsageError);
}

TEST(Options, ReplayOptionsAsAsked) {
    wire::Options asked;
    asked.set_server_v4("192.0.2.1:5300");
    for (const auto& [key, text] : {std::pair("replay.closer", "server"),
                                    {"replay.idle_timeout_s", "0.5"},
                                    {"replay.queries_per_connection", "7"},
                                    {"replay.early_us", "30"},
                                    {"replay.spin_us", "20"},
                                    {"replay.hedge_ms", "2.5"},
                                    {"replay.peers", "192.0.2.2"},
                                    {"tls.version", "1.3"},
                                    {"tls.verify", "false"}}) {
        (*asked.mutable_settings())[key] = text;
    }
    const ReplayOptions options = replay_options(asked);
    EXPECT_TRUE(options.server_closes);
    EXPECT_EQ(options.idle_timeout, kSecond / 2);
    EXPECT_EQ(options.queries_per_connection, 7U);
    EXPECT_EQ(options.waiter.early, 30 * kMicrosecond);
    EXPECT_EQ(options.waiter.spin, 20 * kMicrosecond);
    EXPECT_EQ(options.hedge_after, 2500 * kMicrosecond);
    EXPECT_EQ(options.hedge_peers.at(0).text(), "192.0.2.2:5300");
    EXPECT_EQ(options.tls.version, "1.3");
    EXPECT_FALSE(options.tls.verify);
}

TEST(Statistics, SumsAndJson) {
    Statistics statistics;
    for (const Status status : {Status::kAnswered, Status::kTimedOut, Status::kSendFailed,
                                Status::kConnectionFailed, Status::kSkipped}) {
        statistics.count_end(status);
    }
    EXPECT_EQ(statistics.ended(), 5U);
    const std::string json = statistics_json(statistics, false, "a \"reason\"");
    EXPECT_NE(json.find(R"("clean":false,"because":"a \"reason\"","counts":{"received":0,)"),
              std::string::npos)
        << json;
    google::protobuf::RepeatedField<std::uint64_t> values;
    set_counts(values, statistics);
    const Counts counts = read_counts(values);
    EXPECT_EQ(counts.answered, 1U);
    EXPECT_EQ(counts.skipped, 1U);
}

} // namespace
} // namespace reprise::querier
