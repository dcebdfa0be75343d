#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/random.hh"
#include "core/trace/reassembly/options.hh"
#include "mutator/commands.hh"
#include "mutator/synth/synth_options.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Parses as main does.
CommandLine parse(const std::vector<std::string>& arguments) {
    CommandLine line;
    Command app;
    add_commands(app, line);
    app.parse(arguments);
    return line;
}

/// Sizes of query and reply of an answers file's records, as docs/formats.md lays them out.
std::vector<std::pair<std::uint32_t, std::uint32_t>> record_sizes(const std::string& path) {
    const std::string text = file_text(path);
    const auto u32 = [&](size_t at) {
        std::uint32_t value = 0;
        std::memcpy(&value, text.data() + at, sizeof value);
        return value;
    };
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sizes;
    for (size_t at = u32(12); at + 32 < text.size();) {
        EXPECT_EQ(u32(at), sizes.size()) << "sequence";
        sizes.emplace_back(u32(at + 20), u32(at + 24));
        at += (32 + size_t{sizes.back().first} + sizes.back().second + 7) / 8 * 8;
    }
    return sizes;
}

class CommandsTest : public ::testing::Test {
protected:
    CommandsTest() { std::ofstream(tlds_) << "com\nnet\n"; }

    /// A trace of ten queries.
    std::string make_trace() {
        SynthOptions options;
        options.queries = 10;
        options.tld_file = tlds_;
        EXPECT_EQ(run_synth(options, folder_.file("t.pcap")), 0);
        return folder_.file("t.pcap");
    }

    TemporaryFolder folder_;
    std::string tlds_ = folder_.file("tlds");
};

TEST_F(CommandsTest, SynthThenInfo) {
    const std::string path = make_trace();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_info({.trace = path, .json = true}), 0);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(out, HasSubstr(R"("queries":10,"responses":0)"));
    EXPECT_EQ(out.back(), '\n');
}

TEST_F(CommandsTest, CutTraceIsCountedAndFails) {
    const std::string path = make_trace();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_info({.trace = path}), 1);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(out, HasSubstr("messages        9 queries"));
    EXPECT_THAT(out, HasSubstr("trouble "));
}

TEST_F(CommandsTest, TraceWithoutQueries) {
    const std::string path = make_trace();
    const std::vector<std::uint16_t> ports{5300};
    const std::string output = folder_.file("a.ra");
    EXPECT_THROW(run_info({.trace = path, .ports = ports}), Error);
    EXPECT_THROW(run_answers({.trace = path, .output = output, .ports = ports}), Error);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.ra")));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.ra.partial")));
}

TEST_F(CommandsTest, AnswersHasARecordForEveryQuery) {
    const std::string path = make_trace();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_answers({.trace = path, .output = folder_.file("a.ra")}), 0);
    EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr(R"("unanswered":10)"));
    const auto sizes = record_sizes(folder_.file("a.ra"));
    ASSERT_EQ(sizes.size(), 10U);
    for (const auto& [query, reply] : sizes) {
        EXPECT_GE(query, 17U);
        EXPECT_EQ(reply, 0U);
    }
}

TEST_F(CommandsTest, BadPathsAreOneLineErrors) {
    EXPECT_THROW(run_info({.trace = folder_.file("none")}), trace::TraceError);
    const std::string path = make_trace();
    EXPECT_THROW(run_answers({.trace = path, .output = folder_.file("none/a.ra")}), UsageError);
    try {
        run_info({.trace = path, .json_file = folder_.file("none/a.json")});
        FAIL();
    } catch (const UsageError& error) {
        EXPECT_THAT(error.what(), HasSubstr("give --json-file a file name"));
    }
    SynthOptions options;
    options.tld_file = tlds_;
    EXPECT_THROW(run_synth(options, folder_.file("none/a.pcap")), UsageError);
}

TEST(CommandLine, Info) {
    const CommandLine line = parse({"info", "x.pcap", "--json", "--port", "53", "--port", "5353"});
    EXPECT_EQ(line.info.trace, "x.pcap");
    EXPECT_TRUE(line.info.json);
    EXPECT_THAT(line.info.ports, ElementsAre(53, 5353));
}

TEST(CommandLine, Answers) {
    const CommandLine line = parse({"answers", "x.pcap", "-o", "x.ra", "--window-s", "2.5"});
    EXPECT_EQ(line.answers.output, "x.ra");
    EXPECT_EQ(line.answers.window_s, 2.5);
    EXPECT_THAT(line.answers.ports, ElementsAre(53));
}

TEST(CommandLine, Synth) {
    const CommandLine line = parse({"synth", "-o", "-", "--queries", "7", "--arrival", "fixed",
                                    "--rate", "1e3", "--types", "A:1", "--seed", "9"});
    EXPECT_EQ(line.synth_output, "-");
    EXPECT_EQ(line.synth.queries, 7U);
    EXPECT_EQ(line.synth.arrival, Arrival::kFixed);
    EXPECT_EQ(line.synth.rate_qps, 1000);
    EXPECT_EQ(line.synth.seed, 9U);
    EXPECT_FALSE(line.synth.duration_s);
}

TEST(CommandLine, MistakesAreUsageErrors) {
    EXPECT_THROW(parse({}), UsageError);
    EXPECT_THROW(parse({"info"}), UsageError);
    EXPECT_THROW(parse({"answers", "x"}), UsageError);
    EXPECT_THROW(parse({"info", "x", "--port", "0"}), UsageError);
    EXPECT_THROW(parse({"info", "x", "--port", "65536"}), UsageError);
    EXPECT_THROW(parse({"synth", "-o", "x", "--arrival", "bursts"}), UsageError);
    EXPECT_THROW(parse({"synth", "-o", "x", "--queries", "-1"}), UsageError);
}

} // namespace
} // namespace reprise::mutator
