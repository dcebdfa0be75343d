#pragma once
// Questions to the kernel's routing tables (rtnetlink), answered at once.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <vector>

namespace reprise::querier {

/// One request: a fixed header of its type and attributes.
class NetlinkRequest {
public:
    template <typename Header>
    NetlinkRequest(std::uint16_t type, std::uint16_t flags, const Header& header) {
        begin(type, flags, {reinterpret_cast<const std::uint8_t*>(&header), sizeof header});
    }

    void add(std::uint16_t attribute, Bytes value);

    void add_address(std::uint16_t attribute, const IpAddress& address) {
        add(attribute, {address.bytes.data(), address.size()});
    }

    /// The message, its length filled in.
    [[nodiscard]] Bytes bytes() const { return {bytes_.data(), size_}; }

private:
    void begin(std::uint16_t type, std::uint16_t flags, Bytes header);
    void append(Bytes bytes);

    alignas(nlmsghdr) std::array<std::uint8_t, 256> bytes_{};
    size_t size_ = 0;
};

/// One answer: its fixed header and attributes. Never reads beyond its own bytes.
class NetlinkAnswer {
public:
    /// `bytes`: what follows nlmsghdr.
    explicit NetlinkAnswer(Bytes bytes) : bytes_(bytes.begin(), bytes.end()) {}

    /// The fixed header; zeros where the answer is shorter.
    template <typename Header> [[nodiscard]] Header header() const {
        Cursor cursor(bytes_);
        return cursor.little<Header>();
    }

    /// The value of an attribute behind a fixed header of `header` bytes; empty where there is
    /// none.
    [[nodiscard]] Bytes attribute(size_t header, std::uint16_t type) const;

    /// The same as a number; 0 where there is none.
    [[nodiscard]] std::uint32_t number(size_t header, std::uint16_t type) const;

private:
    std::vector<std::uint8_t> bytes_;
};

class Netlink {
public:
    /// Throws SystemError.
    Netlink();

    /// The kernel's one answer, or nothing with its errno in `error`. An acknowledgement alone is
    /// an answer without attributes. Throws SystemError where the kernel cannot be asked.
    std::optional<NetlinkAnswer> ask(const NetlinkRequest& request, int& error);

private:
    FileDescriptor socket_;
};

} // namespace reprise::querier
