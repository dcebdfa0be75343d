#include "core/base/error.hh"
#include "core/base/output_file.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kTooMuch = 1UL << 60U; // more than any disk has

class WholeFile : public ::testing::Test {
protected:
    void SetUp() override { fs::create_directories(folder_); }

    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

    static std::string read(const std::string& path) {
        std::ifstream in(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& item : fs::directory_iterator(folder_)) {
            found.push_back(item.path().filename());
        }
        return found;
    }

    /// Bytes that a file takes on the disk.
    static std::uint64_t taken(const std::string& path) {
        struct stat status{};
        check(::stat(path.c_str(), &status), "stat");
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    }

private:
    fs::path folder_ = fs::temp_directory_path() / ("reprise-whole-" + std::to_string(::getpid()));
};

TEST_F(WholeFile, ReplacesTheOneBefore) {
    write_whole(path("a"), "one");
    write_whole(path("a"), "two");
    EXPECT_EQ(read(path("a")), "two");
    EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(WholeFile, AFolderThatIsNotThereIsAnError) {
    EXPECT_THROW(write_whole(path("none/a"), ""), SystemError);
    EXPECT_THROW(ReservedFile(path("none/a"), 1), SystemError);
}

TEST_F(WholeFile, LeavesNoHalf) {
    fs::create_directories(path("a/b"));
    EXPECT_THROW(write_whole(path("a"), "one"), SystemError);
    EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(WholeFile, ReservedRoomIsTakenAndGivenBack) {
    {
        ReservedFile file(path("a"), 1U << 20U);
        EXPECT_FALSE(fs::exists(path("a")));
        EXPECT_GE(taken(path("a.part")), 1U << 20U);
        file.grow(2U << 20U);
        EXPECT_GE(taken(path("a.part")), 2U << 20U);
        file.grow(kTooMuch); // there is none, and what was taken stays
        file.write("text");
    }
    EXPECT_EQ(read(path("a")), "text");
    EXPECT_LE(taken(path("a")), 64U << 10U);
    {
        const ReservedFile unused(path("b"), 4096);
    }
    EXPECT_THROW(ReservedFile(path("c"), kTooMuch), SystemError);
    EXPECT_EQ(names(), std::vector<std::string>{"a"});
}

TEST_F(WholeFile, AppendedDataHasItsRoom) {
    AppendFile file(path("a"), AppendFile::Existing::kRefuse);
    EXPECT_THROW(AppendFile(path("a"), AppendFile::Existing::kRefuse), SystemError);
    file.append("one");
    file.reserve(3U << 20U);
    EXPECT_GE(taken(path("a")), 3U << 20U);
    EXPECT_EQ(fs::file_size(path("a")), 0U);
    try {
        file.reserve(kTooMuch);
        FAIL() << "there is so much room";
    } catch (const SystemError& error) {
        EXPECT_EQ(std::string_view(error.what()).find("take room for " + path("a")), 0U);
    }
    EXPECT_GE(taken(path("a")), 3U << 20U);
    file.append("two");
    file.close();
    EXPECT_EQ(read(path("a")), "onetwo");
    EXPECT_LE(taken(path("a")), 64U << 10U);
}

TEST_F(WholeFile, AFileThatIsGivenUpKeepsNoRoom) {
    {
        AppendFile file(path("a"), AppendFile::Existing::kReplace);
        file.append("one");
        file.flush();
        file.reserve(3U << 20U);
    }
    EXPECT_EQ(read(path("a")), "one");
    EXPECT_LE(taken(path("a")), 64U << 10U);
}

TEST_F(WholeFile, WhatIsNoRegularFileIsWrittenAsEver) {
    AppendFile nowhere("/dev/null", AppendFile::Existing::kReplace);
    nowhere.reserve(1000);
    nowhere.append("text");
    nowhere.close();
    AppendFile full("/dev/full", AppendFile::Existing::kReplace);
    full.append("text");
    EXPECT_THROW(full.close(), SystemError);
}

} // namespace
} // namespace reprise
