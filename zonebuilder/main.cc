#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "zonebuilder/commands.hh"

namespace {

int body(int argc, char** argv) {
    reprise::zonebuilder::BuildOptions build;
    reprise::zonebuilder::ExchangesOptions exchanges;
    reprise::zonebuilder::PlanOptions plan;
    reprise::Command app("Builds zones from captures, and plans how one DNS server stands for all "
                         "that serve them.",
                         "reprise-zonebuilder");
    app.set_version_flag("--version", REPRISE_VERSION);
    app.require_subcommand(1);
    app.column_width(34);
    reprise::zonebuilder::add_build_command(app, build);
    reprise::zonebuilder::add_exchanges_command(app, exchanges);
    reprise::zonebuilder::add_plan_command(app, plan);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    if (app.got_subcommand("build")) {
        return reprise::zonebuilder::run_build(build);
    }
    return app.got_subcommand("exchanges") ? reprise::zonebuilder::run_exchanges(exchanges)
                                           : reprise::zonebuilder::run_plan(plan);
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-zonebuilder", body, argc, argv);
}
