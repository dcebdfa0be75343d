#pragma once
// What the kernel counts by itself, parsed from the texts of /proc. Missing lines and fields are 0.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::sampler {

/// A file of /proc; empty when it cannot be read.
std::string read_text(const std::string& path);

/// The machine, from /proc/stat. Seconds since boot, all cores together.
struct Cpu {
    double busy_s = 0;
    double steal_s = 0;
};

Cpu parse_cpu(std::string_view stat);

/// Sockets of this network namespace but for `tcp_pages` and `udp_pages`, which are the machine's
/// (the kernel keeps one account for all namespaces).
struct Sockets {
    std::uint64_t tcp = 0;          ///< every state but SYN-RECV and TIME-WAIT, both families
    std::uint64_t time_wait = 0;    ///< both families
    std::uint64_t synchronized = 0; ///< ESTABLISHED and CLOSE-WAIT, both families
    std::uint64_t tcp_pages = 0;
    std::uint64_t udp_pages = 0;
};

/// From /proc/net/sockstat, sockstat6 and snmp.
Sockets parse_sockets(std::string_view sockstat, std::string_view sockstat6, std::string_view snmp);

/// Connections that a full listen queue turned away so far, from /proc/net/netstat.
std::uint64_t parse_listen_drops(std::string_view netstat);

/// All interfaces but the loopback and those skipped, from /proc/net/dev.
struct Traffic {
    std::uint64_t rx_packets = 0;
    std::uint64_t tx_packets = 0;
    std::uint64_t rx_bytes = 0;
    std::uint64_t tx_bytes = 0;
};

Traffic parse_traffic(std::string_view net_dev, const std::vector<std::string>& skipped = {});

/// Bytes in a line "LABEL N kB", such as "Slab:" of /proc/meminfo, the kernel's objects (sockets,
/// files, buffers) of the whole machine.
std::uint64_t parse_kilobytes(std::string_view text, std::string_view label);

// What a process and all its descendants use together, from /proc.

using Pid = int;

/// One process, from /proc/PID/stat, which counts time in steps of 10 ms.
struct ProcessStat {
    Pid parent = 0;
    double own_cpu_s = 0;      ///< of all its threads
    double children_cpu_s = 0; ///< of those it waited for
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
