#pragma once
// Tests whose scenarios are the files of a folder. REPRISE_SCENARIOS=write writes their transcripts
// anew, to be read before they are committed.

#include "querier/testing/simulation/scenario.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::querier::testing {

inline std::vector<std::string> scenarios_of(const std::string& folder) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() == ".txt") {
            out.push_back(entry.path().string());
        }
    }
    std::ranges::sort(out);
    return out;
}

inline std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = std::filesystem::path(info.param).stem();
    std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

/// Plays the file and compares what was seen with its transcript, or writes it there.
template <typename Play> void goes_as_written(const std::string& path, const Play& play) {
    const Scenario scenario = read_scenario(path);
    const std::vector<std::string> seen = play(scenario);
    const char* wish = std::getenv("REPRISE_SCENARIOS");
    if (wish == nullptr || std::string_view(wish) != "write") {
        EXPECT_EQ(seen, scenario.expected);
        return;
    }
    std::ofstream out(path);
    out << scenario.head << (scenario.head.ends_with("---\n") ? "" : "---\n");
    for (const std::string& line : seen) {
        out << line << '\n';
    }
}

} // namespace reprise::querier::testing
