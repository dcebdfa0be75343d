#pragma once
// `reprise-mutator synth`.

#include "mutator/synth_options.hh"

#include <CLI/CLI.hpp>

#include <string>

namespace reprise::mutator {

/// The subcommand; parsing fills `options` and `output`. What is given explicitly wins over the
/// profile, wherever it stands.
void add_synth(CLI::App& app, SynthOptions& options, std::string& output);

} // namespace reprise::mutator
