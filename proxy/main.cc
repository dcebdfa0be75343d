// reprise-proxy: `resolver` and `meta` rewrite addresses on either side, `delay` only delays,
// `stateless` answers DNS over TCP beside a server.
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/process.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>
#include <utility>

namespace reprise::proxy {
namespace {

/// What the parsed subcommand asks for.
struct CommandLine {
    ProcessOptions process; ///< with the side of the subcommand
    DelayOptions delay;
    bool check = false; ///< only look at the delay's options and files
    StatelessWords stateless;
};

DelaySide delay_side(Side side) {
    switch (side) {
    case Side::kResolver:
        return DelaySide::kResolver;
    case Side::kMeta:
        return DelaySide::kMeta;
    case Side::kNone:
        break;
    }
    return DelaySide::kReplies;
}

Command add_command(Command& app, CommandLine& line, Side side, const char* name,
                    const char* help) {
    Command command = app.add_subcommand(name, help);
    command.callback([&line, side] { line.process.side = side; });
    ProcessOptions& process = line.process;
    command
        .add_option("--tun", process.tun,
                    "TUN device to which the host routes the packets; made where it is missing")
        .required();
    command.add_option("--stats", process.stats,
                       "write the counts there every second and at the end, as JSON");
    command.add_flag("--realtime", process.realtime, "run before ordinary processes (SCHED_FIFO)");
    command.add_option("--user", process.user,
                       "give up root for this user once the device is open; only the right to "
                       "change the device is kept");
    add_delay_options(command, line.delay);
    return command;
}

void add_map(Command command, CommandLine& line) {
    command
        .add_option("--map", line.process.map,
                    "map.tsv of the plan; read again on SIGHUP, while packets wait")
        .required();
    command.add_flag("--via-kernel", line.process.via_kernel,
                     "hand every packet to the host's forwarding, so that its packet filter sees "
                     "it; otherwise most go straight to the next hop, which costs less");
}

/// Adds the subcommands; `line` must outlive parsing.
void add_commands(Command& app, CommandLine& line) {
    app.require_subcommand(1);
    Command resolver =
        add_command(app, line, Side::kResolver, "resolver",
                    "beside a resolver: its queries go to the meta-DNS-server, as if from the "
                    "server that they ask");
    add_map(resolver, line);
    resolver.add_option("--resolver", line.process.resolver, "number of the resolver in the map")
        .show_default();
    add_map(add_command(app, line, Side::kMeta, "meta",
                        "beside the meta-DNS-server: its answers go to the resolver, as if from "
                        "the server that was asked"),
            line);
    add_command(app, line, Side::kNone, "delay", "delays packets and rewrites nothing")
        .add_flag("--check", line.check, "delay nothing: look at the options and their files");
    add_stateless(app, line.stateless);
}

/// The delay model, or null where packets go on at once. Throws UsageError, also for `delay`
/// without a delay.
std::unique_ptr<DelayModel> model_of(const CommandLine& line) {
    auto model = make_model(line.delay, delay_side(line.process.side));
    if (model == nullptr && line.process.side == Side::kNone) {
        throw UsageError("delay: nothing to delay by; give --rtt-ms, --table, --distribution, "
                         "--jitter-ms or --loss-percent");
    }
    return model;
}

int body(int argc, char** argv) {
    CommandLine line;
    Command app("Makes one server stand for all servers of a DNS hierarchy, by rewriting "
                "addresses between a TUN device and the host; delays packets, and answers DNS "
                "over TCP beside a server, where asked.",
                "reprise-proxy");
    app.set_version_flag("--version", REPRISE_VERSION);
    add_commands(app, line);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (app.got_subcommand("stateless")) {
        return run_stateless(complete(app.get_subcommand("stateless"), line.stateless));
    }
    auto model = model_of(line);
    return line.check ? 0 : run_process(line.process, std::move(model));
}

} // namespace
} // namespace reprise::proxy

int main(int argc, char** argv) {
    return reprise::run_main("reprise-proxy", reprise::proxy::body, argc, argv);
}
