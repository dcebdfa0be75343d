#pragma once
// The BPF programs of the front and their maps, loaded but not attached.

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/common/counts.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace reprise::proxy {

/// An address as the programs have it: IPv4 mapped.
using LocalAddress = std::array<std::uint8_t, 16>;

class Programs {
public:
    /// Throws SystemError where this kernel or user cannot.
    Programs(const StatelessSettings& settings, std::uint32_t entries);
    Programs(const Programs&) = delete;
    Programs& operator=(const Programs&) = delete;

    /// Descriptors of the programs for packets that come in and leave; the object keeps them.
    [[nodiscard]] int in() const { return in_; }

    [[nodiscard]] int out() const { return out_; }

    /// Shared with the programs.
    [[nodiscard]] StatelessState& state() {
        return *reinterpret_cast<StatelessState*>(state_.at(0));
    }

    /// The counts of all processors; none where this process may not read the programs' maps.
    [[nodiscard]] std::optional<StatelessCounts> counts() const;

    /// Removes the entries that are older than `timeout`; replies that still come to them are
    /// dropped. Returns how many of them waited for one.
    std::uint64_t expire(Nanoseconds timeout);

    /// Connections to these addresses are served, to others not.
    void serve(const std::set<LocalAddress>& addresses);

    /// What the map of entries takes of the kernel's memory, bytes.
    [[nodiscard]] std::uint64_t memory() const;

private:
    bool remove_if_old(const StatelessFlow& flow, Nanoseconds timeout);

    BpfObject object_;
    Mapping state_; ///< a page of the programs
    int in_ = -1;
    int out_ = -1;
    int flows_ = -1;
    int counts_ = -1;
    int gone_ = -1;
    int addresses_ = -1;
    std::set<LocalAddress> served_;
};

/// What a query in flight takes of the kernel's memory: the hash table's element (48 bytes), the
/// key and the value, each rounded up to 8.
inline constexpr std::uint64_t kBytesPerEntry =
    48 + (sizeof(StatelessFlow) + 7) / 8 * 8 + (sizeof(StatelessEntry) + 7) / 8 * 8;

} // namespace reprise::proxy
