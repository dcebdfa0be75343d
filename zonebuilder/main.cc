#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "zonebuilder/plan_command.hh"

namespace {

int body(int argc, char** argv) {
    reprise::zonebuilder::PlanOptions plan;
    reprise::Command app("Plans how one DNS server stands for all that serve a set of zones.",
                         "reprise-zonebuilder");
    app.set_version_flag("--version", REPRISE_VERSION);
    app.require_subcommand(1);
    app.column_width(34);
    reprise::zonebuilder::add_plan_command(app, plan);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    return reprise::zonebuilder::run_plan(plan);
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-zonebuilder", body, argc, argv);
}
