#pragma once
// What the kernel tells of the host, and what it lets this process do: the single rights of root,
// capabilities(7). A program of a run is started with few of them and gives up those that it needs
// only at the beginning.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

namespace reprise {

/// A file's first line without its end; empty where it cannot be read.
std::string first_line(const char* path);

/// Another one after each start of the host.
std::string boot_id();

/// The clocks of processes with the same one and the same boot_id() agree; 0 where it is not known.
std::uint64_t time_namespace();

/// What this process has used until now, with all its threads.
struct OwnUse {
    double cpu_s = 0;
    std::uint64_t max_rss_bytes = 0; ///< since its program was started
};

OwnUse own_use();

/// Lets this process run before ordinary ones (SCHED_FIFO), for which the kernel wants a right that
/// only root has. Where it is refused, the answer says so and how to fix it, and the log has it
/// too; it is empty otherwise.
///
/// Ordinary scheduling lets another process finish its slice of some milliseconds first. The kernel
/// keeps 5 % of the time for the others even from a process that never sleeps.
std::string run_first();

/// Gives up capabilities for good: for this thread and for the threads and programs that it starts
/// from now on. Does nothing in a process that runs as root, as the next program that it
/// starts would have them again. Throws SystemError.
void give_up(std::initializer_list<unsigned> capabilities);

/// Whether `attempt` still succeeds when capabilities are given up; they are not, afterward.
bool works_without(std::initializer_list<unsigned> capabilities,
                   const std::function<bool()>& attempt);

/// Gives up root for a user, by name, for good (option --user): of root's rights only `kept` stays,
/// and none can be had again. Throws UsageError or SystemError.
void become(const std::string& user, unsigned kept);

} // namespace reprise
