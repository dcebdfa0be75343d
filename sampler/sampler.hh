#pragma once
// Samples of the host it runs in and of process trees, as lines of CSV.

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "sampler/host_counters.hh"
#include "sampler/tcp_states.hh"

#include <bpf/libbpf.h>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::sampler {

/// A process tree to watch, by the number of its first process.
struct Watched {
    std::string name;
    Pid pid = 0;
};

/// NAME=PID. Throws UsageError.
Watched parse_watched(const std::string& text);

/// The heading line, with its end.
std::string columns();

/// PSS of a tree. Reading it walks page tables, 40 ms a GB: it is read as often as `share` of a
/// core allows, and between two readings grows with the resident memory, for what is new is nobody
/// else's.
class ProportionalSize {
public:
    ProportionalSize(double share, Nanoseconds interval) : allowance_(share, interval) {}

    std::uint64_t sample(const std::vector<Pid>& pids, std::uint64_t rss_bytes, bool exact);

    /// A reading, for which the tree had `rss_bytes`.
    void set(std::uint64_t bytes, std::uint64_t rss_bytes);

    /// At `rss_bytes` now.
    [[nodiscard]] std::uint64_t carried_on(std::uint64_t rss_bytes) const;

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
    ~PacketWork();
    PacketWork(const PacketWork&) = delete;
    PacketWork& operator=(const PacketWork&) = delete;

    [[nodiscard]] bool works() const { return !links_.empty(); }

    /// Seconds for all packets that came to interfaces of this network namespace while none of its
    /// processes ran, so that others are charged; 0 where it does not work.
    [[nodiscard]] double uncharged_s() const;

    /// Seconds for other namespaces' packets for which these processes were charged.
    [[nodiscard]] double elsewhere_s(const std::vector<Pid>& pids) const;

private:
    bool load();
    void detach();

    BpfObject object_;
    std::vector<bpf_link*> links_;
    int uncharged_ = -1;
    int elsewhere_ = -1;
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
    std::string host_part(bool exact);
    std::vector<Watched> watched_;
    std::vector<std::string> skipped_;
    TcpCounter tcp_;
    PacketWork packets_;
    std::vector<ProportionalSize> pss_;
};

} // namespace reprise::sampler
