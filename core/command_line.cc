#include "core/command_line.hh"

#include "core/error.hh"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>

namespace reprise {

std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        throw UsageError(std::string(error.what()) + "; see --help");
    }
    return std::nullopt;
}

} // namespace reprise
