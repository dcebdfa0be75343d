// Whole queriers in scenarios: tests/scenario/*.txt.
#include "querier/testing/simulation/files.hh"
#include "querier/testing/simulation/scenario.hh"

#include <gtest/gtest.h>

#include <string>

namespace reprise::querier::testing {
namespace {

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, GoesAsWritten) { goes_as_written(GetParam(), play); }

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest,
                         ::testing::ValuesIn(scenarios_of(REPRISE_SCENARIO_FOLDER)), name_of);

} // namespace
} // namespace reprise::querier::testing
