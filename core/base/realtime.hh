#pragma once
#include <string>

namespace reprise {

/// Lets this process run before ordinary ones (SCHED_FIFO), for which the kernel wants a right that
/// only root has. Where it is refused, the answer says so and how to fix it, and the log has it
/// too; it is empty otherwise.
///
/// Ordinary scheduling lets another process finish its slice of some milliseconds first. The kernel
/// keeps 5 % of the time for the others even from a process that never sleeps.
std::string run_first();

} // namespace reprise
