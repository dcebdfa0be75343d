#pragma once
// What the kernel counts by itself, parsed from the texts of /proc. Missing lines and fields are 0.

#include <cstdint>
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

/// Bytes of the kernel's objects (sockets, files, buffers) of the whole machine, from
/// /proc/meminfo.
std::uint64_t parse_slab_bytes(std::string_view meminfo);

} // namespace reprise::sampler
