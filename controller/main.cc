#include "controller/controller.hh"
#include "controller/options.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/wire/counts.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <string>

namespace {

std::string describe() {
    const reprise::Json counters{
        {"counts", reprise::describe_fields<reprise::Counts>()},
        {"connections", reprise::describe_fields<reprise::ConnectionCounts>()},
        {"", reprise::describe_fields<reprise::QuerierCounts>()}};
    return reprise::json_text({{"settings", reprise::describe_settings()}, {"counters", counters}},
                              2);
}

int body(int argc, char** argv) {
    reprise::controller::Options options;
    reprise::Command app(
        "Reads a trace and hands its queries to distributors, with one announced start.",
        "reprise-controller");
    app.set_version_flag("--version", REPRISE_VERSION);
    reprise::controller::add_options(app, options);
    app.add_text_flag("--describe", describe,
                      "print all settings, and what queriers count, as JSON");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    reprise::controller::validate(options);
    if (options.generate.empty() && options.check != "options") {
        reprise::demand_trace(options.trace);
    }
    if (!options.check.empty()) {
        fmt::print("{}", reprise::controller::check(options));
        return 0;
    }
    if (reprise::controller::holds_run(options.results)) {
        throw reprise::UsageError(options.results +
                                  " holds the results of a run; give --results another folder");
    }
    return reprise::controller::run_controller(options);
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-controller", body, argc, argv);
}
