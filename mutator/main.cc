#include "core/base/command_line.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"
#include "mutator/commands.hh"

#include <csignal>

namespace {

int body(int argc, char** argv) {
    int status = 0;
    reprise::Command app(
        "Changes traces by rules, looks into them, takes their recorded answers, and "
        "makes new ones.",
        "reprise-mutator");
    app.set_version_flag("--version", REPRISE_VERSION);
    reprise::mutator::add_commands(app, status);
    reprise::note_signals({SIGINT, SIGTERM, SIGQUIT});
    return app.parse(argc, argv).value_or(status);
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-mutator", body, argc, argv); }
