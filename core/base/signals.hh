#pragma once
#include "core/base/error.hh"

#include <csignal>
#include <initializer_list>

namespace reprise {

/// Signals wait from now on until somebody asks for them (sigwait, signalfd). Block them before
/// threads and children start, so that none is lost. Throws SystemError.
inline sigset_t block_signals(std::initializer_list<int> numbers) {
    sigset_t set{};
    sigemptyset(&set);
    for (const int number : numbers) {
        sigaddset(&set, number);
    }
    check(sigprocmask(SIG_BLOCK, &set, nullptr), "sigprocmask");
    return set;
}

} // namespace reprise
