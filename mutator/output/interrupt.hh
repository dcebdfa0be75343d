#pragma once

// SIGINT and SIGTERM ask long work to stop in order.

namespace reprise::mutator {

/// From now on the two signals are noted instead of ending the program.
void catch_interrupts();

/// Throws Error ("stopped by ...") once such a signal has come.
void check_interrupt();

} // namespace reprise::mutator
