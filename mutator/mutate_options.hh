#pragma once
// The command line of `reprise-mutator mutate`.

#include "mutator/mutate.hh"

#include <map>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::mutator {

/// As the parser fills it.
struct MutateLine {
    MutateOptions options;
    std::string form; ///< of --to; empty for the output's ending
    std::string malformed = "keep";
    std::map<std::string, std::vector<std::string>> rules; ///< by kind; "rules" are the files
};

void add_mutate(Command& app, MutateLine& line);

/// What was asked for, the rules in the order of the command line. Throws UsageError,
/// rules::RuleError.
MutateOptions mutate_options(const Command& app, const MutateLine& line);

} // namespace reprise::mutator
