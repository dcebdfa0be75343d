#pragma once
// Plays a scenario of the tree (tests/scenario/tree/README.md): the controller, distributors and
// queriers as they are, on simulated hosts.

#include "querier/testing/simulation/scenario.hh"

#include <string>
#include <vector>

namespace reprise::tests {

/// The transcript. Throws Error naming the line that is wrong.
std::vector<std::string> play_tree(const querier::testing::Scenario& scenario);

} // namespace reprise::tests
