#pragma once
// A virtual wire in this network namespace with nobody at its other end but the test, which reads
// the packets.

#include "core/base/fd.hh"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier::testing {

class Wire {
public:
    /// `neighbor` is an address of 192.0.2.0/24 that nobody answers for: what is sent to it waits
    /// in the kernel, up to three seconds and without limit but for the sockets' buffers.
    explicit Wire(std::string neighbor);
    ~Wire();
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    /// From now on everything goes out.
    void make_known() const;

    /// The first `count` UDP messages as (last byte of the source address, DNS id); fewer where no
    /// more come within some seconds.
    [[nodiscard]] std::vector<std::pair<std::uint32_t, std::uint16_t>> seen(size_t count) const;

private:
    std::string neighbor_;
    FileDescriptor reader_;
};

} // namespace reprise::querier::testing
