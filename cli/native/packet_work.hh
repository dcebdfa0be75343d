#pragma once
// The processor time of packets that a host receives.

#include "cli/native/process_tree.hh"

#include <memory>
#include <vector>

struct bpf_link;
struct bpf_object;

namespace reprise::sampler {

/// Counts from its construction on, where this user and kernel can (root, BTF).
class PacketWork {
public:
    PacketWork();
    ~PacketWork();
    PacketWork(const PacketWork&) = delete;
    PacketWork& operator=(const PacketWork&) = delete;

    [[nodiscard]] bool works() const { return !links_.empty(); }

    /// Seconds of all packets that came to interfaces of this network namespace while no process of
    /// it ran, which others are charged for; 0 where it does not work.
    [[nodiscard]] double uncharged_s() const;

    /// Seconds of other namespaces' packets that these processes were charged for.
    [[nodiscard]] double elsewhere_s(const std::vector<Pid>& pids) const;

private:
    struct Close {
        void operator()(bpf_object* object) const;
    };

    bool load();

    std::unique_ptr<bpf_object, Close> object_;
    std::vector<bpf_link*> links_;
    int uncharged_ = -1;
    int elsewhere_ = -1;
};

} // namespace reprise::sampler
