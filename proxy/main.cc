// reprise-proxy: `resolver` and `meta` rewrite addresses on either side, `delay` only delays,
// `stateless` answers DNS over TCP beside a server.
#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "proxy/options.hh"
#include "proxy/process.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/process.hh"

#include <utility>

namespace {

int body(int argc, char** argv) {
    reprise::proxy::CommandLine line;
    reprise::Command app(
        "Makes one server stand for all servers of a DNS hierarchy, by rewriting "
        "addresses between a TUN device and the host; delays packets, and answers DNS "
        "over TCP beside a server, where asked.",
        "reprise-proxy");
    app.set_version_flag("--version", REPRISE_VERSION);
    reprise::proxy::add_commands(app, line);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (app.got_subcommand("stateless")) {
        return reprise::proxy::run_stateless(
            reprise::proxy::complete(app.get_subcommand("stateless"), line.stateless));
    }
    auto model = reprise::proxy::model_of(line);
    return line.check ? 0 : reprise::proxy::run_process(line.process, std::move(model));
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-proxy", body, argc, argv); }
