#pragma once
// `reprise-zonebuilder plan`: options as values, and the run.

#include "zonebuilder/plan/plan.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::zonebuilder {

/// The options as they were given.
struct PlanOptions {
    std::string folder{};
    std::string output{};
    std::string engine = "bind";
    std::string form = "colored";
    unsigned instances = 1;
    std::vector<std::string> resolvers{};
    std::string meta4 = "198.18.128.0/17";
    std::string meta6 = "fd00:198:18::/48";
    std::vector<std::string> reserved{};
    std::string refused{}; ///< file that lists zones that a server does not load; empty: none
    bool skip_bad = false;
    bool no_historic_roots = false;
};

/// Adds the subcommand, which fills `options`.
void add_plan_command(Command& app, PlanOptions& options);

/// Checks the options. Throws UsageError.
PlanSettings plan_settings(const PlanOptions& options);

/// Refuses views that take more than the memory of this host, `available` bytes. Throws Error.
void check_memory(const Plan& plan, const PlanSettings& settings, std::uint64_t available);

/// Reads, plans and writes; returns the exit status.
int run_plan(const PlanOptions& options);

} // namespace reprise::zonebuilder
