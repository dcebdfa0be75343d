#pragma once
// Logs are key=value lines on standard error, never one per query.

#include <string>
#include <string_view>

namespace reprise {

/// Sets up spdlog for a program: lines "TIME LEVEL program=NAME TEXT" on standard error.
void init_log(std::string_view program);

/// What an error says: what happened, and how to fix it ("" where it does not say).
struct Complaint {
    std::string what;
    std::string hint;
};

/// The parts of "WHAT; HOW TO FIX IT". WHAT may hold a library's words, and so a "; " of its own.
Complaint complaint(std::string_view text);

/// Prints the line "PROGRAM: error: TEXT" that ends a program on standard error. Where the
/// environment has REPRISE_ERRORS=json, a line for whoever started it follows:
/// {"error": WHAT, "hint": HOW TO FIX IT}.
void print_error(std::string_view program, std::string_view text, const Complaint& parts);
void print_error(std::string_view program, std::string_view text);

/// Runs a program's body and turns exceptions into one line "NAME: error: WHAT" on standard error.
/// Returns the body's status, 1 for a failure, 2 for a usage error.
int run_main(std::string_view program, int (*body)(int, char**), int argc, char** argv);

/// `text` with quotes where a key=value line needs them.
std::string log_value(std::string_view text);

} // namespace reprise
