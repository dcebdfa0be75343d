// Whole queriers in scenarios: tests/scenario/*.txt. REPRISE_SCENARIOS=write writes the transcripts
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
namespace {

std::vector<std::string> files() {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(REPRISE_SCENARIO_FOLDER)) {
        if (entry.path().extension() == ".txt") {
            out.push_back(entry.path().string());
        }
    }
    std::ranges::sort(out);
    return out;
}

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
    std::string name = std::filesystem::path(info.param).stem();
    std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

bool wants_writing() {
    const char* wish = std::getenv("REPRISE_SCENARIOS");
    return wish != nullptr && std::string_view(wish) == "write";
}

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, GoesAsWritten) {
    const Scenario scenario = read_scenario(GetParam());
    const std::vector<std::string> seen = play(scenario);
    if (wants_writing()) {
        std::ofstream out(GetParam());
        out << scenario.head << (scenario.head.ends_with("---\n") ? "" : "---\n");
        for (const std::string& line : seen) {
            out << line << '\n';
        }
        return;
    }
    EXPECT_EQ(seen, scenario.expected);
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, ::testing::ValuesIn(files()), name_of);

} // namespace
} // namespace reprise::querier::testing
