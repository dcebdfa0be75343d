#include "core/base/random.hh"
#include "core/dns/message.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/synth/synth.hh"
#include "mutator/synth/synth_options.hh"
#include "mutator/testing/support.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

const std::vector<std::string> kTlds{"com", "net", "org", "arpa", "xn--p1ai", "museum"};

/// Makes a trace in a temporary folder and reads it back.
class SynthTest : public ::testing::Test {
protected:
    SynthCounts make(const SynthOptions& options) {
        SynthSink sink(path_, trace::OutputForm::kPcap);
        Synthesizer synthesizer(check_options(options), kTlds, sink);
        while (synthesizer.step()) {
        }
        synthesizer.finish();
        return synthesizer.counts();
    }

    TraceFigures read_back() {
        trace::test::Reader reader(path_);
        TraceInfo info;
        for (Query query; reader.next(query);) {
            info.add(query);
        }
        info.finish();
        EXPECT_EQ(reader.trouble(), "");
        EXPECT_TRUE(reader.counters().empty()) << reader.counters().begin()->first;
        return info.figures();
    }

    /// FNV-1a of the file.
    std::uint64_t hash() {
        std::uint64_t value = 0xcbf29ce484222325ULL;
        for (const char c : file_text(path_)) {
            value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
        }
        return value;
    }

    TemporaryFolder folder_;
    std::string path_ = folder_.file("trace.pcap");
};

SynthOptions some_queries(std::uint64_t queries) {
    SynthOptions options;
    options.queries = queries;
    return options;
}

// The same bytes on every machine: this number may only change together with the generator.
TEST_F(SynthTest, GoldenBytes) {
    SynthOptions options = some_queries(5000);
    options.tcp_share = 0.1;
    options.ipv6_share = 0.3;
    make(options);
    EXPECT_EQ(hash(), 5462995505788957244ULL);
}

TEST_F(SynthTest, SeedDecides) {
    SynthOptions options = some_queries(500);
    make(options);
    const std::uint64_t first = hash();
    make(options);
    EXPECT_EQ(hash(), first);
    options.seed = 2;
    make(options);
    EXPECT_NE(hash(), first);
}

TEST_F(SynthTest, SharesComeOut) {
    constexpr std::uint64_t kCount = 15'000;
    SynthOptions options = some_queries(kCount);
    options.tcp_share = 0.2;
    options.ipv6_share = 0.3;
    options.rd_share = 0.1;
    options.tcp_queries = 2;
    const SynthCounts counts = make(options);
    const TraceFigures figures = read_back();
    const auto share = [](std::uint64_t part) { return static_cast<double>(part) / kCount; };
    EXPECT_EQ(figures.all.queries, kCount);
    EXPECT_EQ(figures.all.responses, 0U);
    EXPECT_EQ(figures.transports.at("tcp").queries, counts.tcp_queries);
    EXPECT_EQ(figures.ipv6.queries, counts.ipv6_queries);
    EXPECT_EQ(figures.connections.connections(), counts.connections);
    EXPECT_NEAR(share(counts.tcp_queries), 0.2, 0.01);
    EXPECT_NEAR(share(counts.ipv6_queries), 0.3, 0.02);
    EXPECT_NEAR(share(counts.junk_queries), 0.5, 0.01);
    EXPECT_NEAR(share(figures.edns), 0.88, 0.02);
    EXPECT_NEAR(share(figures.dnssec_ok), 0.88 * 0.8, 0.02);
    EXPECT_NEAR(share(figures.recursion_desired), 0.1, 0.01);
    EXPECT_NEAR(share(figures.types.at(1)), 0.57, 0.01);
    EXPECT_NEAR(share(counts.tcp_queries) / share(counts.connections), 2, 0.1);
}

TEST_F(SynthTest, PoissonArrivalsHaveTheirRateAndSpread) {
    SynthOptions options = some_queries(25'000);
    options.tcp_share = 0;
    make(options);
    const TraceFigures figures = read_back();
    EXPECT_NEAR(figures.rate(), 1000, 20);
    EXPECT_NEAR(figures.gaps.standard_deviation() / figures.gaps.mean(), 1, 0.02);
}

TEST_F(SynthTest, FixedGapsAreExact) {
    SynthOptions options = some_queries(1000);
    options.tcp_share = 0;
    options.arrival = Arrival::kFixed;
    options.rate_qps = 3;
    make(options);
    const TraceFigures figures = read_back();
    EXPECT_EQ(figures.first, 1'704'067'200 * kSecond);
    EXPECT_EQ(figures.last - figures.first, 333'000'000'000);
    EXPECT_GE(figures.gaps.min(), 333'333'333);
    EXPECT_LE(figures.gaps.max(), 333'333'334);
}

TEST_F(SynthTest, DurationEndsTheTrace) {
    SynthOptions options;
    options.duration_s = 2;
    options.rate_qps = 100;
    options.arrival = Arrival::kFixed;
    EXPECT_EQ(make(options).queries, 200U);
}

TEST_F(SynthTest, PacketsAreInOrderOfTime) {
    SynthOptions options = some_queries(3000);
    options.tcp_share = 0.5;
    make(options);
    EXPECT_EQ(read_back().went_back, 0U);
}

TEST_F(SynthTest, SlowConnectionsEndByIdleness) {
    SynthOptions options = some_queries(40);
    options.rate_qps = 0.1;
    options.tcp_share = 1;
    options.tcp_queries = 10;
    make(options);
    const TraceFigures figures = read_back();
    EXPECT_EQ(figures.all.queries, 40U);
    EXPECT_GT(figures.connections.connections(), 20U) << "gaps of 10 s exceed the idle time";
}

/// Far more connections at a time than ports can be drawn for without drawing one twice.
TEST_F(SynthTest, ConnectionsAreWholeWhereAClientHasMany) {
    SynthOptions options;
    options.duration_s = 0.5;
    options.rate_qps = 4'000;
    options.clients = 1;
    options.tcp_share = 1;
    options.tcp_queries = 1;
    const SynthCounts counts = make(options);
    trace::test::Reader reader(path_, {.closes = true});
    std::set<std::uint64_t> connections;
    std::uint64_t closes = 0;
    for (Query query; reader.next(query);) {
        connections.insert(query.connection);
        closes += query.is_close() ? 1U : 0U;
    }
    EXPECT_TRUE(reader.counters().empty()) << reader.counters().begin()->first;
    EXPECT_EQ(connections.size(), counts.connections);
    EXPECT_EQ(closes, counts.connections);
}

TEST_F(SynthTest, OneClientAsksFromOneAddress) {
    SynthOptions options = some_queries(1000);
    options.clients = 1;
    options.zipf = 0;
    make(options);
    EXPECT_EQ(read_back().sources.size(), 1U);
}

// Every query read back is well-formed and goes to the server that was asked for.
TEST_F(SynthTest, MessagesAreWellFormed) {
    SynthOptions options = some_queries(5000);
    options.tcp_share = 0.2;
    options.server = "203.0.113.9";
    make(options);
    trace::test::Reader reader(path_);
    for (Query query; reader.next(query);) {
        ASSERT_EQ(query.destination.port, 53);
        ASSERT_EQ(query.destination.address.text(),
                  query.source.address.is_v4() ? "203.0.113.9" : "2001:db8::53");
        const auto question = parse_question(query.message);
        ASSERT_TRUE(question);
        ASSERT_EQ(question->dns_class, 1);
        const size_t opt = parse_edns(query.message) ? 11 : 0;
        ASSERT_EQ(query.message.size(), kDnsHeaderSize + question->raw.size() + opt);
    }
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
