#pragma once
// `reprise-mutator mutate`: traces in, a changed trace out.

#include "core/rules/engine/catalog.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/pipeline/inputs.hh"

#include <map>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::mutator {

struct MutateOptions {
    InputOptions inputs;
    std::string output; ///< "-" is standard output
    trace::OutputForm form = trace::OutputForm::kStream;
    unsigned jobs = 1;
    rules::RuleSet rules;
    std::string report; ///< JSON file; empty for none
    std::string
        check; ///< "options" or "trace": look at the rules, and at the inputs; write nothing
};

/// Returns the exit status: 0, or 1 where an input was cut, damaged or could not be read (the
/// others are written). Throws UsageError, TraceError, Error; then nothing is written.
int run_mutate(const MutateOptions& options);

/// The command line, as the parser fills it.
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
