#pragma once
// The command line of reprise-mutator as values.

#include "mutator/commands.hh"
#include "mutator/digests/digests.hh"
#include "mutator/info/rtts.hh"
#include "mutator/mutate.hh"
#include "mutator/pipeline/reduce.hh"
#include "mutator/synth/synth_options.hh"

#include <string>

namespace reprise {
class Command;
}

namespace reprise::mutator {

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
