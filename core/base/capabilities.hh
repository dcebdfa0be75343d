#pragma once
// The single rights of root, capabilities(7). A program of a run is started with few of them and
// gives up those that it needs only at the beginning.

#include <functional>
#include <initializer_list>
#include <string>

namespace reprise {

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
