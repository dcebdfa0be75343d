// reprise-querier: `distribute` runs a host's queriers, `query` is one of them.
#include "core/log.hh"
#include "querier/options.hh"
#include "querier/process.hh"

#include <CLI/CLI.hpp>

#include <string>

namespace {

using reprise::querier::QueryOptions;

struct Timing {
    std::string early = "auto";
    int spin = 0;

    void add_to(CLI::App& command) {
        command.add_option("--early-us", early, "Wake up so much before a query is due, or auto")
            ->capture_default_str();
        command.add_option("--spin-us", spin, "Busy-wait for at most so long, 0 to 30")
            ->capture_default_str();
    }
};

void add_query(CLI::App& command, QueryOptions& options) {
    command.add_option("--control-fd", options.control_fd, "Socket pair to the distributor")
        ->required();
    command.add_option("--name", options.name, "Name of this host")->required();
    command.add_option("--index", options.index, "Number of this querier on its host")->required();
    command.add_option("--run-id", options.run, "Run to take part in")->required();
    command.add_option("--results", options.results, "Folder for the results")->required();
}

int body(int argc, char** argv) {
    CLI::App app("Sends a trace's queries at their time and records how each one ends",
                 "reprise-querier");
    app.require_subcommand(1);
    QueryOptions options;
    Timing timing;
    CLI::App* query = app.add_subcommand("query", "One querier; started by distribute only");
    add_query(*query, options);
    timing.add_to(*query);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    options.waiter = {.early = reprise::querier::parse_early(timing.early),
                      .spin = reprise::querier::parse_spin(timing.spin)};
    return reprise::querier::run_query(options);
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-querier", body, argc, argv); }
