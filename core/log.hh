#pragma once
// Logs are key=value lines on standard error, never one per query.

#include <string>
#include <string_view>

namespace reprise {

/// Sets up spdlog for a program: lines "TIME LEVEL program=NAME TEXT" on standard error.
void init_log(std::string_view program);

/// Runs a program's body and turns exceptions into one line "NAME: error: WHAT" on standard error.
/// Returns the body's status, 1 for a failure, 2 for a usage error.
int run_main(std::string_view program, int (*body)(int, char**), int argc, char** argv);

/// `text` with quotes where a key=value line needs them.
std::string log_value(std::string_view text);

} // namespace reprise
