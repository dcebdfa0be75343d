// Every parser of foreign input takes its seeds, without libFuzzer. A target ends the program where
// it finds something: the last file named before that is the one.
#include "tests/fuzz/targets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// Of exactly the file's size, so that the address sanitizer sees a byte read too much.
std::vector<std::uint8_t> content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    bytes.shrink_to_fit();
    return bytes;
}

class FuzzSeeds : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzSeeds, AreTaken) {
    const fs::path folder = fs::path(REPRISE_SEEDS) / GetParam().name;
    ASSERT_TRUE(fs::is_directory(folder)) << folder << ": the target has no seeds";
    size_t taken = 0;
    for (const auto& seed : fs::directory_iterator(folder)) {
        std::cout << seed.path().string() << std::endl; // NOLINT(performance-avoid-endl)
        const auto bytes = content(seed.path());
        EXPECT_EQ(GetParam().take(bytes.data(), bytes.size()), 0);
        ++taken;
    }
    EXPECT_GT(taken, 0U) << folder << ": the target has no seeds";
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzSeeds, testing::ValuesIn(fuzz_targets()),
                         [](const auto& target) { return std::string(target.param.name); });

TEST(FuzzFolders, BelongToATarget) {
    std::set<std::string> names;
    for (const FuzzTarget& target : fuzz_targets()) {
        names.insert(target.name);
    }
    for (const auto& entry : fs::directory_iterator(REPRISE_SEEDS)) {
        if (entry.is_directory() || entry.path().extension() == ".dict") {
            EXPECT_THAT(names, testing::Contains(entry.path().stem().string()));
        }
    }
}

} // namespace
