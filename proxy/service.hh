#pragma once
// What the commands of reprise-proxy have in common: a process that serves packets until a signal
// ends it, and that writes its counts every second.

#include "core/base/clock.hh"
#include "core/base/signals.hh"

#include <optional>
#include <string>

namespace reprise::proxy {

/// What a command does whenever something has come. Times are of CLOCK_MONOTONIC.
class Service {
public:
    Service() = default;
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;
    virtual ~Service() = default;

    /// To be polled for input; -1 where there is none.
    [[nodiscard]] virtual int fd() const { return -1; }

    /// Does what waits there, at most a batch of it, so that signals and tick() get their turn.
    virtual void readable() {}

    /// When tick() has something to do.
    [[nodiscard]] virtual std::optional<Nanoseconds> next_due() const { return std::nullopt; }

    virtual void tick(Nanoseconds /*now*/) {}

    /// Before the counts are written.
    virtual void each_second(Nanoseconds now) = 0;

    /// The counts of this moment, in the form of --stats.
    [[nodiscard]] virtual std::string statistics() = 0;

    // Lines of the log.
    virtual void tell_ready() = 0;
    virtual void tell_end() = 0;
};

/// Those that end serve(). To be made first.
inline Signals service_signals() { return Signals{SIGTERM, SIGINT, SIGQUIT, SIGHUP}; }

/// Serves until a signal comes. `path`: where the counts are written, whole each time;
/// empty for nowhere. Throws what the service throws, with its counts written, and SystemError
/// where they cannot be written at the beginning or at the end.
void serve(Service& service, const Signals& signals, const std::string& path);

/// CPU time of this process, user and system, s.
double cpu_seconds();

} // namespace reprise::proxy
