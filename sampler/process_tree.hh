#pragma once
// What a process and all its descendants use together, from /proc.

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::sampler {

using Pid = int;

/// One process, from /proc/PID/stat. CPU holds own threads and children it waited for.
struct ProcessStat {
    Pid parent = 0;
    double cpu_s = 0;
    std::uint64_t rss_bytes = 0;
};

/// Nothing for a line that is none; the process's name may hold anything.
std::optional<ProcessStat> parse_stat(std::string_view text);

using ProcessTable = std::map<Pid, ProcessStat>;

/// Every process that this /proc shows.
ProcessTable read_processes();

/// The process and everything below it; none where it is gone.
std::vector<Pid> descendants(Pid root, const ProcessTable& table);

struct TreeUse {
    double cpu_s = 0; ///< that of ended children stays in, because their parents waited for them
    std::uint64_t rss_bytes = 0;
    std::uint64_t descriptors = 0;
};

TreeUse measure(const std::vector<Pid>& pids, const ProcessTable& table);

/// Proportional set size: shared pages count by share, so that forked servers are not counted
/// twice.
std::uint64_t pss_bytes(const std::vector<Pid>& pids);

} // namespace reprise::sampler
