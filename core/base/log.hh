#pragma once
// Logs are key=value lines on standard error, never one per query.

#include "core/base/clock.hh"

#include <cstdint>
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

/// Says how far long work is; short work stays silent. One of the few readers of a clock.
class Progress {
public:
    /// `check` is called whenever it looks at the clock, and may throw to end the work.
    explicit Progress(std::string_view what, void (*check)() = nullptr)
        : what_(what), check_(check), started_(SteadyClock::now()) {}

    /// Call it often with what is done; it looks at the clock every 32,768 calls.
    void tick(std::uint64_t done) {
        if (++calls_ % kCallsPerLook == 0) {
            look(done);
        }
    }

    [[nodiscard]] double elapsed_s() const;

private:
    static constexpr std::uint64_t kCallsPerLook = 32'768;

    void look(std::uint64_t done);

    std::string_view what_;
    void (*check_)();
    Nanoseconds started_ = 0;
    Nanoseconds printed_ = 0; ///< since started_
    std::uint64_t calls_ = 0;
};

} // namespace reprise
