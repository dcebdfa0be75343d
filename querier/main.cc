// reprise-querier: `distribute` runs a host's queriers, `query` is one of them.
#include "core/base/address.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/tree/distributor.hh"
#include "core/tree/fanout.hh"
#include "core/tree/kernel_host.hh"
#include "querier/carrier/replay_options.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/process.hh"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace {

using reprise::Command;
using reprise::querier::QueryOptions;
using reprise::tree::DistributorOptions;

struct Commands {
    Command app{"Sends a trace's queries at their time and records how each one ends",
                "reprise-querier"};
    QueryOptions query;
    DistributorOptions distributor;
    reprise::tree::TlsFiles tls;
    std::vector<std::string> prefixes;
    std::string listen;
    std::vector<std::string> feeds;
    std::string cpus;
    bool check = false;

    /// What both subcommands take; the distributor hands it on to its queriers.
    void add_common(Command& command, auto& options) {
        command.add_option("--run-id", options.run, "Run to take part in").required();
        command.add_option("--name", options.name, "Name of this host").required();
        command.add_option("--results", options.results, "Folder for the results").required();
        command
            .add_option("--source-prefix", prefixes,
                        "ADDRESS/BITS whose addresses stand for the sources (source mode mapped); "
                        "twice for IPv4 and IPv6")
            .allow_extra_args(false);
    }

    void add_distribute() {
        Command command = app.add_subcommand("distribute", "Runs the queriers of this host");
        add_common(command, distributor);
        command.add_option("--listen", listen, "ADDR:PORT for the controller").required();
        command.add_option("--cert", tls.certificate, "This host's certificate, PEM").required();
        command.add_option("--key", tls.key, "Its key, PEM").required();
        command.add_option("--ca", tls.authority, "The run's authority, PEM").required();
        command.add_option("--queriers", distributor.queriers,
                           "Querier processes; 0 = one a processor, or none with --feed");
        command.add_option("--cpus", cpus,
                           "Processors for the queriers in turn, e.g. 0,2-3; default: any");
        command
            .add_option("--feed", feeds,
                        "[NAME=]HOST:PORT of a further distributor to feed; repeatable")
            .allow_extra_args(false);
        command.add_flag("--check", check, "Look at the options and start nothing");
    }

    void add_query() {
        Command command = app.add_subcommand("query", "One querier; started by distribute only");
        add_common(command, query);
        command.add_option("--control-fd", query.control_fd, "Socket pair to the distributor")
            .required();
        command.add_option("--index", query.index, "Number of this querier on its host").required();
        command.add_option("--cpu", query.cpu, "Processor to run on");
    }

    int run_query() {
        for (const std::string& prefix : prefixes) {
            query.prefixes.push_back(reprise::querier::parse_prefix(prefix));
        }
        return reprise::querier::run_query(query);
    }

    int run_distribute() {
        const auto endpoint = reprise::Endpoint::parse(listen);
        if (!endpoint || endpoint->port == 0) {
            throw reprise::UsageError(
                fmt::format("--listen {}: not ADDR:PORT; give e.g. 127.0.0.1:4480", listen));
        }
        distributor.listen = *endpoint;
        distributor.feeds = reprise::tree::parse_peers("--feed", feeds);
        for (const std::string& prefix : prefixes) {
            reprise::querier::parse_prefix(prefix);
            distributor.querier_arguments.emplace_back("--source-prefix");
            distributor.querier_arguments.push_back(prefix);
        }
        if (!cpus.empty()) {
            distributor.cpus = reprise::querier::parse_cpus(cpus);
        }
        if (check) {
            return 0;
        }
        reprise::tree::KernelHost host(tls);
        return reprise::tree::Distributor(distributor, host).run();
    }
};

int body(int argc, char** argv) {
    Commands commands;
    commands.app.require_subcommand(1);
    commands.add_distribute();
    commands.add_query();
    commands.app.add_subcommand("packet-check", "Says whether source mode packet works here");
    if (const auto status = commands.app.parse(argc, argv)) {
        return *status;
    }
    if (commands.app.got_subcommand("packet-check")) {
        fmt::print("{}\n", reprise::querier::packet_verdict());
        return 0;
    }
    return commands.app.got_subcommand("query") ? commands.run_query() : commands.run_distribute();
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-querier", body, argc, argv); }
