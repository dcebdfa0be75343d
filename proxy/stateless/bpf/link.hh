#pragma once
// The interface that the BPF programs serve, as the host has it.

#include "core/base/fd.hh"

#include <cstdint>
#include <string>

namespace reprise::proxy {

/// An Ethernet interface that this process alone has a front on, as long as this lives.
class Link {
public:
    /// Throws UsageError for an interface that has no Ethernet header, Error where another front is
    /// on it, SystemError.
    explicit Link(const std::string& name);

    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] int index() const { return index_; }

    /// Whether the interface of the name is still the same.
    [[nodiscard]] bool is_there() const;

    /// Whether the interface computes the checksums of packets that it sends.
    [[nodiscard]] bool computes_checksums() const;

    /// Turns that on or off. Throws SystemError.
    void compute_checksums(bool on) const;

private:
    std::string name_;
    int index_ = 0;
    FileDescriptor control_; ///< any socket
    FileDescriptor lock_;    ///< its name is the interface's, in this network namespace
};

// The tc hooks of an interface, where packets come in and leave.

/// What a front changes at an interface besides its programs. Their filters' handle says it, which
/// any process may read; what is in a program's maps takes all rights of root.
inline constexpr std::uint32_t kHooksAreOurs = 1U << 16U; ///< the qdisc was not there before
/// The interface computed checksums before the front turned that off.
inline constexpr std::uint32_t kTxWasOn = 1U << 17U;

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
    std::uint32_t handle_;
};

/// The handle of a front's filters at the interface; 0 where there are none. One that was killed
/// while it started or ended has left only one. A front that lives has the interface's lock.
std::uint32_t left_behind(int interface);

/// Removes our programs from an interface, and the hooks where their handle says that they are
/// ours.
void remove_programs(int interface, std::uint32_t handle);

} // namespace reprise::proxy
