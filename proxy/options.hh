#pragma once
// The command line of reprise-proxy.

#include "proxy/delay/delay_model.hh"
#include "proxy/delay/delay_options.hh"
#include "proxy/process.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>

namespace reprise {
class Command;
}

namespace reprise::proxy {

/// What the parsed subcommand asks for.
struct CommandLine {
    ProcessOptions process; ///< with the side of the subcommand
    DelayOptions delay;
    bool check = false; ///< only look at the delay's options and files
    StatelessWords stateless;
};

/// Adds the subcommands; `line` must outlive parsing.
void add_commands(Command& app, CommandLine& line);

/// The delay model, or null where packets go on at once. Throws UsageError, also for `delay`
/// without a delay.
std::unique_ptr<DelayModel> model_of(const CommandLine& line);

} // namespace reprise::proxy
