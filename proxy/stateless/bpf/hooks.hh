#pragma once
// The tc hooks of an interface, where packets come in and leave.

#include <optional>

namespace reprise::proxy {

/// What a front changes at an interface besides its programs. Their filters' handle says it, which
/// any process may read; what is in a program's maps takes all rights of root.
struct Changes {
    bool hooks_are_ours = false; ///< the qdisc was not there before
    bool tx_was_on = false; ///< the interface computed checksums before the front turned that off
};

/// Our programs at both hooks, until the end of this.
class Hooks {
public:
    /// Puts the programs, by their descriptors, in the place of those that an earlier front has
    /// left. Throws SystemError.
    Hooks(int interface, int in, int out, bool tx_was_on);
    ~Hooks();
    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

private:
    int interface_;
    Changes changes_;
};

/// What a front whose programs are at the interface has changed. One that lives has its lock.
std::optional<Changes> left_behind(int interface);

/// Removes our programs from an interface, and the hooks where `changes` says that they are ours.
void remove_programs(int interface, const Changes& changes);

} // namespace reprise::proxy
