#pragma once
// What the process asks of a front.

#include "core/base/clock.hh"
#include "proxy/stateless/common/counters.hh"

#include <optional>
#include <vector>

namespace reprise::proxy {

/// Serves from its construction, which throws UsageError, Error or SystemError, to its destruction,
/// which undoes what it changed on the host.
class Front {
public:
    Front() = default;
    Front(const Front&) = delete;
    Front& operator=(const Front&) = delete;
    virtual ~Front() = default;

    /// To be polled for input; may change from turn to turn.
    [[nodiscard]] virtual std::vector<int> descriptors() const = 0;

    /// Does what waits at its descriptors, at most a batch of it.
    virtual void readable() = 0;

    /// Called at least once a second, and when next_due() has come.
    virtual void tick(Nanoseconds now) = 0;

    /// When tick() has something to do before the next second, CLOCK_MONOTONIC.
    [[nodiscard]] virtual std::optional<Nanoseconds> next_due() const { return std::nullopt; }

    /// The counts of this moment.
    [[nodiscard]] virtual Counters counters() = 0;
};

} // namespace reprise::proxy
