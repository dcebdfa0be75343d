#pragma once
// The subcommands of reprise-mutator: their options, and what is read, written and printed around
// the pure parts.

#include "core/rules/engine/catalog.hh"
#include "core/trace/feed.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/digests/digests.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::mutator {

struct InfoOptions {
    std::string trace;
    std::vector<std::uint16_t> ports{53};
    bool json = false;
    std::string json_file{}; ///< written beside what is printed; empty for none
};

struct AnswersOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
    double window_s = 10; ///< trace time a query waits for its response
};

struct MutateOptions {
    std::vector<std::string> inputs; ///< "-" is standard input
    std::vector<std::uint16_t> ports{53};
    std::string output; ///< "-" is standard output
    trace::OutputForm form = trace::OutputForm::kStream;
    unsigned jobs = 1;
    rules::RuleSet rules;
    std::string report; ///< JSON file; empty for none
    /// "options" or "trace": look at the rules, and at the inputs; write nothing.
    std::string check;
};

struct ReduceOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
};

struct RttsOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
    rules::RuleSet rules; ///< change the trace before
};

/// Each returns the exit status: 0, or 1 where the trace was cut or holds no query. Throws
/// UsageError, TraceError, Error.
int run_info(const InfoOptions& options);
int run_answers(const AnswersOptions& options);
int run_synth(const SynthOptions& options, const std::string& output);

/// Traces in, a changed trace out. The exit status is 1 where an input was cut, damaged or could
/// not be read (the others are written). Where it throws, nothing is written.
int run_mutate(const MutateOptions& options);

/// Writes the round trips of a trace's sources as a table for a delay line: rows `ADDRESS rtt_ms`,
/// tab-separated, in order of appearance, behind a line that names them. Throws Error where no
/// query has a class, and RuleError as rules::Chain does.
int run_rtts(const RttsOptions& options);

/// Leaves of a capture only what a replay has a use for: writes the queries over UDP, and the TCP
/// segments and fragments that only make sense together with others, of which some may lie in the
/// next file. Traces merged from reduced captures have the same queries and closes as those of the
/// captures themselves.
int run_reduce(const ReduceOptions& options);

/// What is said of a trace that was readable but holds nothing to work on.
std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses);

// What the parser fills.

struct MutateLine {
    MutateOptions options;
    std::string form; ///< of --to; empty for the output's ending
    std::string malformed = "keep";
    std::map<std::string, std::vector<std::string>> rules; ///< by kind; "rules" are the files
};

struct CommandLine {
    InfoOptions info;
    AnswersOptions answers;
    DigestsOptions digests;
    MutateLine mutate;
    ReduceOptions reduce;
    RttsOptions rtts;
    SynthOptions synth;
    std::string synth_output;
};

/// Adds the subcommands and their options, which fill `line`; one of them is required.
void add_commands(Command& app, CommandLine& line);

/// What `mutate` was asked for, the rules in the order of the command line. Throws UsageError,
/// rules::RuleError.
MutateOptions mutate_options(const Command& app, const MutateLine& line);

/// Runs the subcommand that was parsed; returns the exit status.
int run_command(const Command& app, const CommandLine& line);

/// The subcommand `synth`; parsing fills `options` and `output`. What is given explicitly wins over
/// the profile, wherever it stands.
void add_synth(Command& app, SynthOptions& options, std::string& output);

} // namespace reprise::mutator
