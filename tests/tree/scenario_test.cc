// Controller, distributors and queriers together: tests/scenario/tree/*.txt.
#include "querier/testing/simulation/files.hh"
#include "tests/tree/player.hh"

#include <gtest/gtest.h>

#include <string>

namespace reprise::tests {
namespace {

class TreeScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TreeScenarioTest, GoesAsWritten) {
    querier::testing::goes_as_written(GetParam(), play_tree);
}

INSTANTIATE_TEST_SUITE_P(Files, TreeScenarioTest,
                         ::testing::ValuesIn(querier::testing::scenarios_of(REPRISE_SCENARIOS)),
                         querier::testing::name_of);

} // namespace
} // namespace reprise::tests
