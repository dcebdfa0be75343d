#include "mutator/output/interrupt.hh"

#include "core/base/error.hh"

#include <signal.h> // NOLINT(modernize-deprecated-headers): sigaction is not in csignal

namespace reprise::mutator {
namespace {

volatile sig_atomic_t stop_signal = 0;

extern "C" void note_signal(int number) { stop_signal = number; }

} // namespace

void catch_interrupts() {
    struct sigaction action{};

    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

void check_interrupt() {
    if (stop_signal != 0) {
        throw Error("stopped by a signal; the unfinished output was removed");
    }
}

} // namespace reprise::mutator
