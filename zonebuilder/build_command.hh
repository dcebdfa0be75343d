#pragma once
// `reprise-zonebuilder build`: options as values, and the run.

#include "zonebuilder/reconstruct/zone_text.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::zonebuilder {

/// The options as they were given.
struct BuildOptions {
    std::vector<std::string> captures{};
    std::string output{};
    std::string at{};
    Dnssec dnssec = Dnssec::kKeep;
    std::vector<std::uint16_t> ports{53};
};

/// Adds the subcommand, which fills `options`.
void add_build_command(Command& app, BuildOptions& options);

/// Reads, rebuilds and writes; returns the exit status.
int run_build(const BuildOptions& options);

} // namespace reprise::zonebuilder
