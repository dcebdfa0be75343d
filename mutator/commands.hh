#pragma once
// The subcommands of reprise-mutator: their options, and what is read, written and printed around
// the pure parts.

#include "mutator/digests/digests.hh"
#include "mutator/info/rtts.hh"
#include "mutator/mutate.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace {
class Feed;
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

struct ReduceOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
};

/// Each returns the exit status: 0, or 1 where the trace was cut or holds no query. Throws
/// UsageError, TraceError, Error.
int run_info(const InfoOptions& options);
int run_answers(const AnswersOptions& options);
int run_synth(const SynthOptions& options, const std::string& output);

/// Leaves of a capture only what a replay has a use for: writes the queries over UDP, and the TCP
/// segments and fragments that only make sense together with others, of which some may lie in the
/// next file. Traces merged from reduced captures have the same queries and closes as those of the
/// captures themselves.
int run_reduce(const ReduceOptions& options);

/// What is said of a trace that was readable but holds nothing to work on.
std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses);

/// What the parser fills.
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

/// Runs the subcommand that was parsed; returns the exit status.
int run_command(const Command& app, const CommandLine& line);

/// The subcommand `synth`; parsing fills `options` and `output`. What is given explicitly wins over
/// the profile, wherever it stands.
void add_synth(Command& app, SynthOptions& options, std::string& output);

} // namespace reprise::mutator
