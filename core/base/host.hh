#pragma once
// What the kernel tells of the host.

#include <cstdint>
#include <string>

namespace reprise {

/// A file's first line without its end; empty where it cannot be read.
std::string first_line(const char* path);

/// Another one after each start of the host.
std::string boot_id();

/// The clocks of processes with the same one and the same boot_id() agree; 0 where it is not known.
std::uint64_t time_namespace();

/// Lets this process run before ordinary ones (SCHED_FIFO), for which the kernel wants a right that
/// only root has. Where it is refused, the answer says so and how to fix it, and the log has it
/// too; it is empty otherwise.
///
/// Ordinary scheduling lets another process finish its slice of some milliseconds first. The kernel
/// keeps 5 % of the time for the others even from a process that never sleeps.
std::string run_first();

} // namespace reprise
