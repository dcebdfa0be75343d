#pragma once
// The processor time of packets that a host receives.

#include "core/base/bpf.hh"
#include "sampler/host_counters.hh"

#include <bpf/libbpf.h>
#include <vector>

namespace reprise::sampler {

/// Counts from construction on, if it is `wanted` and user and kernel allow it (root, BTF).
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

} // namespace reprise::sampler
