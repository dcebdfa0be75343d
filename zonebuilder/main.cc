#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "zonebuilder/commands.hh"

namespace {

int body(int argc, char** argv) {
    int status = 0;
    reprise::Command app("Builds zones from captures, and plans how one DNS server stands for all "
                         "that serve them.",
                         "reprise-zonebuilder");
    app.set_version_flag("--version", REPRISE_VERSION);
    app.require_subcommand(1);
    app.column_width(34);
    reprise::zonebuilder::add_capture_commands(app, status);
    reprise::zonebuilder::add_plan_command(app, status);
    return app.parse(argc, argv).value_or(status);
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-zonebuilder", body, argc, argv);
}
