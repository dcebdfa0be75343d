#pragma once
// `reprise-mutator mutate`: traces in, a changed trace out.

#include "core/trace/forms/query_encoder.hh"
#include "mutator/pipeline/inputs.hh"
#include "mutator/rules/engine/catalogue.hh"

#include <string>

namespace reprise::mutator {

struct MutateOptions {
    InputOptions inputs;
    std::string output; ///< "-" is standard output
    trace::OutputForm form = trace::OutputForm::kStream;
    unsigned jobs = 1;
    RuleSet rules;
    std::string report; ///< JSON file; empty for none
    std::string
        check; ///< "options" or "trace": look at the rules, and at the inputs; write nothing
};

/// Returns the exit status: 0, or 1 where an input was cut, damaged or could not be read (the
/// others are written). Throws UsageError, TraceError, Error; then nothing is written.
int run_mutate(const MutateOptions& options);

} // namespace reprise::mutator
