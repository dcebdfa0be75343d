#pragma once
// `reprise-zonebuilder exchanges`: options as values, and the run.

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::zonebuilder {

/// The options as they were given.
struct ExchangesOptions {
    std::vector<std::string> captures{};
    std::vector<std::uint16_t> ports{53};
};

/// Adds the subcommand, which fills `options`.
void add_exchanges_command(Command& app, ExchangesOptions& options);

/// Writes to standard output; returns the exit status.
int run_exchanges(const ExchangesOptions& options);

} // namespace reprise::zonebuilder
