#pragma once
// What the process asks of the kernel for itself.

#include "core/base/fd.hh"

#include <optional>
#include <string>

namespace reprise::proxy {

/// SIGTERM, SIGINT, SIGQUIT and SIGHUP as a descriptor, so that they wait their turn in poll.
class Signals {
public:
    /// Blocks the three signals in this thread from now on.
    Signals();

    [[nodiscard]] int fd() const { return fd_.get(); }

    /// The next signal's number, or none.
    [[nodiscard]] std::optional<int> next() const;

private:
    FileDescriptor fd_;
};

/// Sleeps end when asked, not some 50 µs later.
void set_timer_slack();

/// Gives up root for a user, by name, for good: of root's rights only CAP_NET_ADMIN is kept, for
/// the device's MTU, and none can be had again. Throws UsageError or SystemError.
void become(const std::string& user);

} // namespace reprise::proxy
