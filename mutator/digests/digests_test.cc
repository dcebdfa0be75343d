#include "core/base/error.hh"
#include "core/wire/result_file.hh"
#include "mutator/digests/digests.hh"
#include "mutator/testing/support.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

class DigestsTest : public ::testing::Test {
protected:
    /// Two records, of which the second has no reply.
    void write_answers() {
        RaWriter writer(path_, R"({"kind": "replay"})");
        writer.append({.sequence = 4, .query = query_, .reply = reply_});
        writer.append({.sequence = 2, .query = query_, .reply = {}});
        writer.finish();
    }

    std::vector<Digest> rows(std::uint64_t seed = 0) {
        const DigestsOptions options{.answers = path_, .output = folder_.file("out"), .seed = seed};
        EXPECT_EQ(run_digests(options), 0);
        std::string text = file_text(folder_.file("out"));
        DigestsHeader header;
        std::memcpy(&header, text.data(), sizeof header);
        EXPECT_EQ(header.seed, seed);
        text.erase(0, sizeof header);
        std::vector<Digest> found(text.size() / sizeof(Digest));
        std::memcpy(found.data(), text.data(), found.size() * sizeof(Digest));
        return found;
    }

    TemporaryFolder folder_;
    std::string path_ = folder_.file("a.ra");
    std::vector<std::uint8_t> query_{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1};
    std::vector<std::uint8_t> reply_{0, 8, 0x81, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1};
};

TEST_F(DigestsTest, ARowForEachRecord) {
    write_answers();
    const auto found = rows();
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].sequence, 4U);
    EXPECT_EQ(found[1].sequence, 2U);
    EXPECT_EQ(found[1].at, found[0].at + 72); // with its head, and up to a multiple of 8
    EXPECT_EQ(found[0].query, message_hash(query_));
    EXPECT_EQ(found[0].reply, message_hash(reply_));
    EXPECT_EQ(found[0].content, Contents({}).of(query_, reply_).content);
    EXPECT_EQ(found[0].flags, 0x8103);
    EXPECT_EQ(found[0].reply_size, reply_.size());
    EXPECT_EQ(found[1].query, message_hash(query_));
    EXPECT_EQ(found[1].content, 0U);
    EXPECT_EQ(found[1].reply_size, 0U);
}

TEST_F(DigestsTest, AreOthersWithAnotherSeed) {
    write_answers();
    const auto known = rows()[0];
    const auto found = rows(1)[0];
    EXPECT_NE(found.query, known.query);
    EXPECT_NE(found.content, known.content);
    EXPECT_EQ(found.reply, message_hash(reply_, 1));
    EXPECT_NE(found.reply, known.reply);
}

TEST_F(DigestsTest, OfACutFileWhatIsWhole) {
    write_answers();
    const auto whole = std::filesystem::file_size(path_);
    std::filesystem::resize_file(path_, whole - 40);
    EXPECT_EQ(rows().size(), 1U);
}

TEST_F(DigestsTest, OtherFilesAreRefused) {
    std::ofstream(path_) << "RPRQHDR1 and more than a header's bytes";
    EXPECT_THROW(rows(), Error);
    ::testing::internal::CaptureStdout(); // nothing is written before
    EXPECT_THROW(run_digests({.answers = path_, .output = "-"}), Error);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
    std::filesystem::remove(path_);
    write_answers();
    EXPECT_THROW(run_digests({.answers = path_, .output = folder_.file("out"), .origin = "a..b"}),
                 UsageError);
}

} // namespace
} // namespace reprise::mutator
