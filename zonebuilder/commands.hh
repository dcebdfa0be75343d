#pragma once
// The subcommands of reprise-zonebuilder: options as they were given, and the runs.

#include "zonebuilder/plan/plan.hh"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::zonebuilder {

struct PlanOptions {
    std::string folder{};
    std::string output{};
    PlanSettings settings{}; ///< engine, form and instances; the rest is checked first
    std::vector<std::string> resolvers{};
    std::string meta4 = "198.18.128.0/17";
    std::string meta6 = "fd00:198:18::/48";
    std::vector<std::string> reserved{};
    std::string refused{}; ///< file that lists zones that a server does not load; empty: none
    bool skip_bad = false;
    bool no_historic_roots = false;
};

/// Adds `plan`; where that is given, parsing runs it and sets `status` to its exit status.
void add_plan_command(Command& app, int& status);

/// Checks the options. Throws UsageError.
PlanSettings plan_settings(const PlanOptions& options);

/// Refuses views that take more than the memory of this host, `available` bytes. Throws Error.
void check_memory(const Plan& plan, const PlanSettings& settings, std::uint64_t available);

/// Reads, plans and writes; returns the exit status.
int run_plan(const PlanOptions& options);

/// Adds `build` and `exchanges`, as above.
void add_capture_commands(Command& app, int& status);

/// Writes out what was printed to standard output. Throws Error: "cannot write WHAT: ...; HINT".
void flush_output(std::string_view what, std::string_view hint);

/// The folder of -o, made if need be. The report, which is written last, says that it is whole.
class OutputFolder {
public:
    /// Removes a former `report`, and beside one the files that end in `ending`, if that is given.
    /// Throws Error.
    explicit OutputFolder(std::filesystem::path path, const std::string& report,
                          std::string_view ending = {});

    /// Whole or not at all: a file that could not be written to its end is not there. Throws Error.
    void write(const std::string& name, std::string_view text) const;

private:
    std::filesystem::path path_;
};

} // namespace reprise::zonebuilder
