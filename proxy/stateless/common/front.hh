#pragma once
// What fronts of both kinds have in common.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "proxy/service.hh"
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/common/options.hh"

#include <string>
#include <vector>

namespace reprise::proxy {

/// The number of an interface. Throws UsageError where this host does not have it.
unsigned interface_index(const std::string& interface);

/// Largest packet of an interface, bytes; 0 where it has vanished.
unsigned interface_mtu(const std::string& interface);

/// One front serves an interface, of whatever kind, until the descriptor is closed (see
/// core/base/name_lock.hh). Throws Error where another one does.
FileDescriptor lock_interface(const std::string& interface);

/// Serves from its construction, which throws UsageError, Error or SystemError, to its destruction,
/// which undoes what it changed on the host. tick() is called at least once a second.
class Front : public Service {
public:
    /// `options` must outlive it.
    explicit Front(const StatelessOptions& options);

    /// The counts of this moment.
    [[nodiscard]] virtual Counters counters() = 0;

    void each_second(Nanoseconds now) final;
    [[nodiscard]] std::string statistics() final;
    void tell_ready() final;
    void tell_end() final;

protected:
    [[nodiscard]] const StatelessOptions& options() const { return options_; }

private:
    void tell_second();

    const StatelessOptions& options_;
    std::vector<unsigned> indices_; ///< of the interfaces, in their order
    Nanoseconds started_;
    Counters told_; ///< what the line of the last second has counted
};

} // namespace reprise::proxy
