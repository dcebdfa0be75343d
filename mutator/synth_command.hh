#pragma once
// `reprise-mutator synth`.

#include "mutator/synth/synth_options.hh"

#include <string>

namespace reprise {
class Command;
}

namespace reprise::mutator {

/// The subcommand; parsing fills `options` and `output`. What is given explicitly wins over the
/// profile, wherever it stands.
void add_synth(Command& app, SynthOptions& options, std::string& output);

} // namespace reprise::mutator
