#pragma once
// What fronts of both kinds have in common.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/service.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::proxy {

/// The number of an interface. Throws UsageError where this host does not have it.
unsigned interface_index(const std::string& interface);

/// Largest packet of an interface, bytes; 0 where it has vanished.
unsigned interface_mtu(const std::string& interface);

/// One front serves an interface, of whatever kind, until the descriptor is closed (see
/// core/base/fd.hh). Throws Error where another one does.
FileDescriptor lock_interface(const std::string& interface);

/// As in statistics, in the order of the enumeration.
inline constexpr std::array<std::string_view, kReasons> kReasonNames{
    "split",    "pipelined", "segmented", "fin",    "opcode", "flags",     "question",
    "transfer", "tsig",      "cookie",    "ecs",    "option", "truncated", "long",
    "opt",      "later",     "full",      "reused", "window"};

/// What a front has counted, and what it keeps.
struct Counters : StatelessCounts {
    std::uint64_t entries = 0; ///< queries in flight
    std::uint64_t entries_peak = 0;
    std::uint64_t entries_limit = 0;
    Nanoseconds entries_lived = 0; ///< the lives of all entries so far, summed
    std::uint64_t bytes_per_entry = 0;
    std::uint64_t state_bytes = 0;  ///< of the entries in use
    std::uint64_t memory_bytes = 0; ///< taken for entries, used or not
};

/// The form of --stats: one JSON object, schema 1. `running`: time since the start.
std::string to_json(const Counters& c, const StatelessOptions& options, Nanoseconds running,
                    double cpu_seconds);

/// Serves from its construction, which throws UsageError, Error or SystemError, to its destruction,
/// which undoes what it changed on the host. This one leaves all to the kernel's TCP.
class Front : public Service {
public:
    /// `options` must outlive it.
    explicit Front(const StatelessOptions& options);

    /// The counts of this moment.
    [[nodiscard]] virtual Counters counters() { return {}; }

    void each_second(Nanoseconds now) final;
    [[nodiscard]] std::string statistics() final;
    void tell_ready() final;
    void tell_end() final;

protected:
    /// Once a second.
    virtual void refresh(Nanoseconds /*now*/) {}

    [[nodiscard]] const StatelessOptions& options() const { return options_; }

private:
    const StatelessOptions& options_;
    std::vector<unsigned> indices_; ///< of the interfaces, in their order
    Nanoseconds started_;
    Counters told_{}; ///< what the line of the last second has counted
};

} // namespace reprise::proxy
