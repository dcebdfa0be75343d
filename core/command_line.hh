#pragma once
#include <optional>

namespace CLI { // NOLINT(readability-identifier-naming): the library's own
class App;
} // namespace CLI

namespace reprise {

/// Reads the command line into what `app` was told of. Returns the exit status where that was all
/// there was to do (--help, --version). Throws UsageError, in one line with the mend.
std::optional<int> parse_command_line(CLI::App& app, int argc, const char* const* argv);

} // namespace reprise
