#pragma once
// A scenario: a text that says what the trace holds, what server, network and parent do, and what
// is seen of it. tests/scenario/README.md describes the form.

#include <string>
#include <vector>

namespace reprise::querier::testing {

struct Scenario {
    std::vector<std::string> script;   ///< what is done, without empty lines and comments
    std::vector<std::string> expected; ///< the transcript
    std::string head;                  ///< the file up to the transcript, as it is
};

/// Throws Error where the file cannot be read.
Scenario read_scenario(const std::string& path);

/// Plays it through a whole querier; the transcript. Throws Error naming the line that is wrong.
std::vector<std::string> play(const Scenario& scenario);

} // namespace reprise::querier::testing
