#pragma once
// Samples of the host it runs in and of process trees, as lines of CSV.

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/netlink.hh"
#include "sampler/host_counters.hh"

#include <algorithm>
#include <array>
#include <bpf/libbpf.h>
#include <cstdint>
#include <functional>
#include <linux/netlink.h>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::sampler {

// TCP sockets by state, once a second, also where there are 100,000 of them.
//
// A dump of sock_diag(7) counts every state. It costs 0.1 us for each socket in the kernel's table,
// because each is a miss of the caches, and 0.8 us more for each socket that it tells about. So
// connections that stand are not dumped where there are many: the kernel keeps the numbers of
// synchronized connections, of all sockets and of those in TIME-WAIT itself, and the dump of the
// other states gives the rest. Where even the walk is dear (10 ms at 100,000), it is made every
// second or third time; the samples between have the kernel's numbers and the last dump's split of
// the few others.

/// By the kernel's number of the state (BPF_TCP_ESTABLISHED, ... in linux/bpf.h).
using StateCounts = std::array<std::uint64_t, 16>;

/// Local ports whose sockets count; none = those of all.
using Ports = std::vector<std::uint16_t>;

/// A netlink socket of the network namespace in which it was made.
class SockDiag {
public:
    /// `open` makes the sockets, one after the other where dumps fail.
    explicit SockDiag(std::function<Netlink()> open = [] { return Netlink({}, NETLINK_SOCK_DIAG); })
        : open_(std::move(open)) {}

    /// Sockets of both families in the states of `mask` (bit s = state s), by one walk over the
    /// kernel's table. A dump that is broken off for want of memory, or interrupted, is made again,
    /// three times. Throws SystemError.
    StateCounts count(std::uint32_t mask, const Ports& ports = {});

private:
    std::function<Netlink()> open_;
    Netlink netlink_ = open_();
};

/// As in the columns of the samples.
struct TcpStates {
    std::uint64_t established = 0;
    std::uint64_t syn_recv = 0;
    std::uint64_t time_wait = 0;
    std::uint64_t fin_wait = 0;
    std::uint64_t close_wait = 0;
    std::uint64_t other = 0; ///< SYN-SENT, LAST-ACK, CLOSING
};

/// A dump of every state that is in `mask`, the rest from the kernel's own numbers.
TcpStates states_of(const StateCounts& dump, std::uint32_t mask, const Sockets& kernel);

/// A sample without a dump: the kernel's numbers now, split as in the last dump as far as they
/// allow. `listening` is the number of listening sockets.
TcpStates carried_on(const TcpStates& last, const Sockets& kernel, std::uint64_t listening);

/// States to dump: all but those of which the kernel's own numbers tell that they are many.
std::uint32_t dump_mask(const Sockets& kernel);

/// Keeps work that may become dear within a share of one core: an account in CPU time that earns a
/// share of every interval and is never in credit, so that work is done at once while it is cheap
/// and skipped until it has been earned where it was dear.
class Allowance {
public:
    Allowance(double share, Nanoseconds interval)
        : income_(static_cast<Nanoseconds>(share * static_cast<double>(interval))) {}

    /// Once an interval: whether the work may be done now.
    bool earn() {
        balance_ = std::min<Nanoseconds>(balance_ + income_, 0);
        return balance_ == 0;
    }

    /// What the work cost; less than an interval's income is for free.
    void spend(Nanoseconds cost) { balance_ -= cost; }

private:
    Nanoseconds income_;
    Nanoseconds balance_ = 0;
};

class TcpCounter {
public:
    /// Dumps may take `share` of a core; samples come every `interval`.
    TcpCounter(double share, Nanoseconds interval, Ports ports)
        : allowance_(share, interval), ports_(std::move(ports)) {}

    /// `exact` dumps whatever it costs. The kernel's own numbers are those of all ports: where only
    /// some count, every state is dumped, and between two dumps the last one holds.
    TcpStates sample(const Sockets& kernel, bool exact);

    /// Whether the last sample dumped.
    [[nodiscard]] bool dumped() const { return dumped_; }

private:
    SockDiag diag_;
    Allowance allowance_;
    Ports ports_;
    TcpStates last_;
    bool dumped_ = false;
};

// What goes into a line.

/// A process tree to watch, by the number of its first process.
struct Watched {
    std::string name;
    Pid pid = 0;
};

/// NAME=PID. Throws UsageError.
Watched parse_watched(const std::string& text);

/// The heading line, with its end.
inline constexpr std::string_view kColumns =
    "time_real_ns,time_mono_ns,host_cpu_s,host_steal_s,process,pid_count,cpu_s,rss_bytes,"
    "pss_bytes,fds,tcp_established,tcp_syn_recv,tcp_time_wait,tcp_fin_wait,tcp_close_wait,"
    "tcp_other,tcp_mem_bytes,udp_mem_bytes,rx_packets,tx_packets,rx_bytes,tx_bytes,"
    "slab_bytes,listen_drops,tcp_dumped,uncharged_s,elsewhere_s\n";

/// PSS of a tree. Reading it walks page tables, 40 ms a GB: it is read as often as `share` of a
/// core allows, and between two readings grows with the resident memory, for what is new is nobody
/// else's.
class ProportionalSize {
public:
    ProportionalSize(double share, Nanoseconds interval) : allowance_(share, interval) {}

    std::uint64_t sample(const std::vector<Pid>& pids, std::uint64_t rss_bytes, bool exact);

    /// A reading, for which the tree had `rss_bytes`.
    void set(std::uint64_t bytes, std::uint64_t rss_bytes) {
        bytes_ = bytes;
        rss_bytes_ = rss_bytes;
    }

    /// At `rss_bytes` now.
    [[nodiscard]] std::uint64_t carried_on(std::uint64_t rss_bytes) const {
        const std::uint64_t now = bytes_ + rss_bytes;
        return now > rss_bytes_ ? now - rss_bytes_ : 0;
    }

private:
    Allowance allowance_;
    std::uint64_t bytes_ = 0;
    std::uint64_t rss_bytes_ = 0; ///< when it was read
};

/// The processor time of packets that a host receives. Counts from construction on, if it is
/// `wanted` and user and kernel allow it (root, BTF).
class PacketWork {
public:
    explicit PacketWork(bool wanted);

    [[nodiscard]] bool works() const { return !links_.empty(); }

    /// Where it works: seconds for all packets that came to interfaces of this network namespace
    /// while none of its processes ran, so that others are charged.
    [[nodiscard]] double uncharged_s() const;

    /// Where it works: seconds for other namespaces' packets for which these were charged.
    [[nodiscard]] double elsewhere_s(const std::vector<Pid>& pids) const;

private:
    void attach();

    BpfObject object_;
    std::vector<std::unique_ptr<bpf_link, decltype(&bpf_link__destroy)>> links_;
};

class Sampler {
public:
    /// `skipped`: interfaces that carry packets a second time, such as TUN devices. `packet_work`:
    /// the CPU time of packets is measured, too. `ports`: TCP sockets of these count only.
    Sampler(std::vector<Watched> watched, Nanoseconds interval,
            std::vector<std::string> skipped = {}, bool packet_work = false, Ports ports = {});

    /// One line for each watched tree. `exact`: nothing is left out for its price.
    std::string sample(bool exact);

private:
    std::vector<Watched> watched_;
    std::vector<std::string> skipped_;
    TcpCounter tcp_;
    PacketWork packets_;
    std::vector<ProportionalSize> pss_;
};

} // namespace reprise::sampler
