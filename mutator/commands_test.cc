#include "core/base/error.hh"
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

using ::testing::HasSubstr;

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
        EXPECT_EQ(run_words({"synth", "--queries", "10", "--tld-file", tlds_, "-o",
                             folder_.file("t.pcap")}),
                  0);
        return folder_.file("t.pcap");
    }

    TemporaryFolder folder_;
    std::string tlds_ = folder_.file("tlds");
};

TEST_F(CommandsTest, SynthThenInfo) {
    const std::string path = make_trace();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_words({"info", path, "--json"}), 0);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(out, HasSubstr(R"("queries":10,"responses":0)"));
    EXPECT_EQ(out.back(), '\n');
}

TEST_F(CommandsTest, CutTraceIsCountedAndFails) {
    const std::string path = make_trace();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 5);
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_words({"info", path}), 1);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(out, HasSubstr("messages        9 queries"));
    EXPECT_THAT(out, HasSubstr("trouble "));
}

TEST_F(CommandsTest, TraceWithoutQueries) {
    const std::string path = make_trace();
    EXPECT_THROW(run_words({"info", path, "--port", "5300", "--port", "5353"}), Error);
    EXPECT_THROW(run_words({"answers", path, "-o", folder_.file("a.ra"), "--port", "5300"}), Error);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.ra")));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("a.ra.partial")));
}

TEST_F(CommandsTest, AnswersHasARecordForEveryQuery) {
    const std::string path = make_trace();
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(run_words({"answers", path, "-o", folder_.file("a.ra"), "--window-s", "2.5"}), 0);
    EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr(R"("unanswered":10)"));
    const auto sizes = record_sizes(folder_.file("a.ra"));
    ASSERT_EQ(sizes.size(), 10U);
    for (const auto& [query, reply] : sizes) {
        EXPECT_GE(query, 17U);
        EXPECT_EQ(reply, 0U);
    }
}

TEST_F(CommandsTest, BadPathsAreOneLineErrors) {
    EXPECT_THROW(run_words({"info", folder_.file("none")}), UsageError);
    const std::string path = make_trace();
    EXPECT_THROW(run_words({"answers", path, "-o", folder_.file("none/a.ra")}), UsageError);
    EXPECT_THROW(run_words({"synth", "--tld-file", tlds_, "-o", folder_.file("none/a.pcap")}),
                 UsageError);
}

TEST(CommandLine, MistakesAreUsageErrors) {
    EXPECT_THROW(run_words({}), UsageError);
    EXPECT_THROW(run_words({"info"}), UsageError);
    EXPECT_THROW(run_words({"answers", "x"}), UsageError);
    EXPECT_THROW(run_words({"info", "x", "--port", "0"}), UsageError);
    EXPECT_THROW(run_words({"info", "x", "--port", "65536"}), UsageError);
    EXPECT_THROW(run_words({"synth", "-o", "x", "--arrival", "bursts"}), UsageError);
    EXPECT_THROW(run_words({"synth", "-o", "x", "--queries", "-1"}), UsageError);
}

} // namespace
} // namespace reprise::mutator
