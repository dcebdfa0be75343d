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

    /// 0 where the interface has vanished.
    [[nodiscard]] unsigned mtu() const;

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

} // namespace reprise::proxy
