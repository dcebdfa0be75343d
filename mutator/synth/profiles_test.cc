#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/synth/synth.hh"
#include "mutator/synth/synth_options.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::mutator {
namespace {

const std::vector<std::string> kKnownTlds{"com", "net", "org",  "arpa",
                                          "uk",  "de",  "info", "museum"};

SynthOptions parsed(const std::vector<std::string>& words) {
    Command command;
    SynthOptions options;
    add_synth_options(command, options);
    command.parse(words);
    return options;
}

class ProfilesTest : public ::testing::Test {
protected:
    SynthCounts make(const SynthOptions& options) {
        SynthSink sink(path_, trace::OutputForm::kPcap);
        Synthesizer synthesizer(check_options(options), kKnownTlds, sink);
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
        return info.figures();
    }

    TemporaryFolder folder_;
    std::string path_ = folder_.file("trace.pcap");
};

TEST(Profiles, ExplicitOptionsWin) {
    for (const auto& words : {std::vector<std::string>{"--profile", "syn-2", "--rate", "7"},
                              std::vector<std::string>{"--rate", "7", "--profile", "syn-2"}}) {
        const SynthOptions options = parsed(words);
        EXPECT_EQ(options.rate_qps, 7);
        EXPECT_EQ(options.clients, 10'000U);
        EXPECT_EQ(options.unique_below, "example.com");
    }
    EXPECT_EQ(parsed({}).rate_qps, SynthOptions().rate_qps);
    EXPECT_EQ(parsed({"--profile", "simple"}).types, SynthOptions().types);
    EXPECT_THAT(
        [] { parsed({"--profile", "syn-9"}); },
        ::testing::ThrowsMessage<UsageError>(::testing::HasSubstr("syn-9 not in {simple,")));
    EXPECT_THROW(profile_options("syn-9"), UsageError);
}

TEST(Profiles, RecursiveWantsNames) {
    EXPECT_THROW(check_options(parsed({"--profile", "recursive"})), UsageError);
    EXPECT_EQ(check_options(parsed({"--profile", "recursive", "--unique-below", "a"})).names,
              NameKind::kUnique);
    EXPECT_EQ(check_options(parsed({"--profile", "recursive", "--names", "f"})).names,
              NameKind::kList);
    EXPECT_EQ(check_options(parsed({"--profile", "root", "--unique-below", "a.example"})).names,
              NameKind::kUnique);
    EXPECT_THROW(check_options(parsed({"--unique-below", "a..b"})), UsageError);
    EXPECT_THROW(check_options(parsed({"--gap-cv", "0.5"})), UsageError);
}

// Published: gaps of 1 s and 0.1 s, 3 k and 9.7 k distinct clients, 3.6 k and 36 k queries.
TEST_F(ProfilesTest, SynTracesAreLdplayers) {
    const std::vector<double> gaps{1, 0.1};
    const std::vector<double> sources{3023, 9727};
    for (size_t i = 0; i < gaps.size(); ++i) {
        make(profile_options("syn-" + std::to_string(i)));
        const TraceFigures figures = read_back();
        EXPECT_EQ(figures.all.queries, static_cast<std::uint64_t>(std::llround(3600 / gaps[i])));
        EXPECT_EQ(figures.gaps.min(), std::llround(gaps[i] * 1e9));
        EXPECT_EQ(figures.gaps.max(), std::llround(gaps[i] * 1e9));
        EXPECT_NEAR(static_cast<double>(figures.sources.size()), sources[i], 60);
        EXPECT_EQ(figures.transports.at("udp").queries, figures.all.queries);
        EXPECT_EQ(figures.edns, 0U);
    }
}

TEST_F(ProfilesTest, SynGapsAreExact) {
    for (const auto& [name, gap] : {std::pair<std::string, Nanoseconds>{"syn-2", 10'000'000},
                                    {"syn-3", 1'000'000},
                                    {"syn-4", 100'000}}) {
        SynthOptions options = profile_options(name);
        options.queries = 5'000;
        make(options);
        trace::test::Reader reader(path_);
        Nanoseconds expected = 1'704'067'200 * kSecond;
        for (Query query; reader.next(query); expected += gap) {
            ASSERT_EQ(query.time, expected) << name;
        }
    }
}

TEST_F(ProfilesTest, SynNamesAreUnique) {
    make(profile_options("syn-0"));
    trace::test::Reader reader(path_);
    std::set<std::string> names;
    for (Query query; reader.next(query);) {
        const std::string name = name_text(parse_question(query.message)->name);
        ASSERT_TRUE(name.ends_with(".example.com."));
        ASSERT_TRUE(names.insert(name).second);
    }
    EXPECT_EQ(names.size(), 3600U);
}

// Shares of the real minute, within 0.02 of all queries (shares of whole clients) or 0.01.
TEST_F(ProfilesTest, RootHasTheSharesOfTheRealMinute) {
    SynthOptions options = profile_options("root");
    options.queries = 25'000;
    const SynthCounts counts = make(options);
    const TraceFigures figures = read_back();
    const auto share = [](std::uint64_t part) { return static_cast<double>(part) / 25'000; };
    EXPECT_NEAR(share(counts.junk_queries), 0.630, 0.01);
    EXPECT_NEAR(share(figures.ipv6.queries), 0.111, 0.02);
    EXPECT_NEAR(share(counts.tcp_queries), 0.0102, 0.002);
    EXPECT_NEAR(share(figures.edns), 0.877, 0.02);
    EXPECT_NEAR(share(figures.dnssec_ok), 0.709, 0.02);
    EXPECT_NEAR(share(figures.recursion_desired), 0.018, 0.003);
    EXPECT_NEAR(share(figures.types.at(1)), 0.572, 0.01);
    EXPECT_NEAR(share(figures.types.at(28)), 0.233, 0.01);
    EXPECT_NEAR(share(figures.types.at(2)), 0.053, 0.005);
    EXPECT_NEAR(share(figures.edns_sizes.at(4096)), 0.598, 0.02);
    EXPECT_NEAR(share(figures.edns_sizes.at(8192)), 0.124, 0.02);
    EXPECT_EQ(counts.connections, counts.tcp_queries);
}

TEST_F(ProfilesTest, RootSourcesAreSkewedAsInTheRealMinute) {
    SynthOptions options = profile_options("root");
    options.queries = 10'432;
    make(options);
    const TraceFigures figures = read_back();
    EXPECT_NEAR(static_cast<double>(figures.sources.size()), 2491, 125);
    std::uint64_t sum = 0;
    const auto top = figures.top_sources(100);
    for (size_t i = 0; i < top.size(); ++i) {
        sum += top[i].second;
        const double share = static_cast<double>(sum) / 10'432;
        if (i == 9) {
            EXPECT_NEAR(share, 0.148, 0.02);
        }
        if (i == 99) {
            EXPECT_NEAR(share, 0.441, 0.03);
        }
    }
}

TEST_F(ProfilesTest, RecursiveIsLikeRec17) {
    std::ofstream(folder_.file("names")) << "a.example\nb.example\nc.example\nd.example\n";
    SynthOptions options = profile_options("recursive");
    options.names = folder_.file("names");
    make(options);
    const TraceFigures figures = read_back();
    EXPECT_NEAR(static_cast<double>(figures.all.queries), 19'911, 600); // published: 20 k
    EXPECT_EQ(figures.sources.size(), 91U);
    EXPECT_NEAR(figures.gaps.mean() / 1e9, 0.180799, 0.006);
    EXPECT_NEAR(figures.gaps.standard_deviation() / 1e9, 0.355360, 0.02);
    EXPECT_EQ(figures.recursion_desired, figures.all.queries);
    trace::test::Reader reader(path_);
    std::map<std::string, double> names;
    for (Query query; reader.next(query);) {
        names[name_text(parse_question(query.message)->name)] += 1;
    }
    EXPECT_EQ(names.size(), 4U);
    EXPECT_NEAR(names["a.example."] / names["b.example."], 2, 0.15);
    EXPECT_NEAR(names["a.example."] / names["d.example."], 4, 0.4);
}

TEST_F(ProfilesTest, NamesInTurnAreAskedOnceByEachClient) {
    std::ofstream(folder_.file("names")) << "a.example\nb.example\nc.example\n";
    SynthOptions options = profile_options("recursive");
    options.names_in_turn = true;
    EXPECT_THROW(check_options(options), UsageError);
    options.names = folder_.file("names");
    options.clients = 2;
    options.duration_s = 10;
    make(options);
    trace::test::Reader reader(path_);
    std::map<IpAddress, std::string> asked;
    for (Query query; reader.next(query);) {
        asked[query.source.address] += name_text(parse_question(query.message)->name)[0];
    }
    ASSERT_EQ(asked.size(), 2U);
    for (const auto& [client, names] : asked) {
        EXPECT_EQ(names.substr(0, 4), "abca");
    }
}

TEST_F(ProfilesTest, EachIsTheSameEveryTime) {
    for (const std::string name : {"root", "syn-3"}) {
        SynthOptions options = profile_options(name);
        options.queries = 2000;
        make(options);
        const std::string first = file_text(path_);
        make(options);
        EXPECT_EQ(file_text(path_), first);
        options.seed = 2;
        make(options);
        EXPECT_NE(file_text(path_), first);
    }
}

} // namespace
} // namespace reprise::mutator

// NOLINTEND(bugprone-unchecked-optional-access)
