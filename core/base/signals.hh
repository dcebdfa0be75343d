#pragma once
// Signals in processes without an event loop of libevent (for those: core/tree/kernel_host.hh).

#include "core/base/clock.hh"
#include "core/base/fd.hh"

#include <csignal>
#include <initializer_list>
#include <optional>

namespace reprise {

/// Signals that wait their turn, from now on and also after this object's end. Make it before
/// threads and children start, so that none is lost.
class Signals {
public:
    /// Throws SystemError.
    explicit Signals(std::initializer_list<int> numbers);

    /// Readable while one waits.
    [[nodiscard]] int fd() const { return fd_.get(); }

    /// The number of the next one, which may come until then (CLOCK_MONOTONIC; 0: one that waits
    /// already); none otherwise.
    [[nodiscard]] std::optional<int> next(Nanoseconds until = 0) const;

private:
    sigset_t set_{};
    FileDescriptor fd_;
};

/// From now on these signals only end what waits in the kernel, with EINTR, and are told of by
/// noted_signal().
void note_signals(std::initializer_list<int> numbers);

/// The number of the last one; 0 for none.
int noted_signal();

} // namespace reprise
