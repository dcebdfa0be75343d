#pragma once
// Sets of options for synthetic traces, by name.

#include "mutator/synth/synth_options.hh"

#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

struct Profile {
    std::string name;
    std::string help; ///< half a line
    SynthOptions options;
};

/// simple first: the options' own defaults.
const std::vector<Profile>& profiles();

/// Throws UsageError where there is no such profile.
const SynthOptions& profile_options(std::string_view name);

} // namespace reprise::mutator
