#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"
#include "mutator/commands.hh"

#include <csignal>

namespace {

int body(int argc, char** argv) {
    reprise::mutator::CommandLine line;
    reprise::Command app(
        "Changes traces by rules, looks into them, takes their recorded answers, and "
        "makes new ones.",
        "reprise-mutator");
    app.set_version_flag("--version", REPRISE_VERSION);
    reprise::mutator::add_commands(app, line);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    reprise::note_signals({SIGINT, SIGTERM, SIGQUIT});
    return reprise::mutator::run_command(app, line);
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-mutator", body, argc, argv); }
