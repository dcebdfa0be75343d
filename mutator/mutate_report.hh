#pragma once
// What a mutation did, for people (log lines) and programs (JSON).

#include "mutator/pipeline/inputs.hh"
#include "mutator/pipeline/stages.hh"
#include "mutator/rules/engine/rule.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {

struct MutateOptions;

struct MutateReport {
    InputCounts in;
    OutputCounts out;
    std::uint64_t bytes = 0; ///< written
    double seconds = 0;
    std::vector<trace::Feed::File> files;
    std::vector<RuleCounts> rules; ///< in the order of the options' rules
};

/// One line a rule, and one for the whole, to standard error.
void log_report(const MutateOptions& options, const MutateReport& report);

/// One JSON object, schema 1.
std::string report_json(const MutateOptions& options, const MutateReport& report);

} // namespace reprise::mutator
