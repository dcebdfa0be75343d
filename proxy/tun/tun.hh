#pragma once
// A TUN device: IP packets that the host routes to it are read here, and what is written here the
// host receives as if it had come in from a network.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy {

/// What packets are read from and written to.
class Device {
public:
    virtual ~Device() = default;

    /// One packet into `buffer` (65,535 bytes are enough for any): its part of the buffer, or an
    /// empty span where none waits. Throws Error where the device has vanished.
    [[nodiscard]] virtual std::span<std::uint8_t> read(std::span<std::uint8_t> buffer) const = 0;

    /// Hands a packet to the host. The kernel routes and forwards it within this call. False where
    /// it does not take the packet, or the device is down or has vanished.
    [[nodiscard]] virtual bool write(Bytes packet) const = 0;
};

/// Attached to one device. No second process can be, and a persistent device outlives this one.
class Tun final : public Device {
public:
    /// Attaches to the device, and makes it where it is not there yet; brings it up. Without
    /// offloads: packets are at most an MTU long and have whole checksums. Throws SystemError,
    /// or Error with the hint.
    explicit Tun(const std::string& name);

    [[nodiscard]] const std::string& name() const { return name_; }

    /// Nonblocking, for poll.
    [[nodiscard]] int fd() const { return fd_.get(); }

    /// Returns once the kernel counts the device as running. One that was there before is not for
    /// some milliseconds after it is attached to. Throws Error after 2 s.
    void wait_until_running() const;

    /// Whether a packet is there to be read.
    [[nodiscard]] bool waits() const;

    [[nodiscard]] std::span<std::uint8_t> read(std::span<std::uint8_t> buffer) const override;
    [[nodiscard]] bool write(Bytes packet) const override;

    [[nodiscard]] int mtu() const;

    /// Throws SystemError, for example without the right to.
    void set_mtu(int mtu) const;

    /// Number of the interface; 0 where it has vanished.
    [[nodiscard]] unsigned index() const;

    /// Packets that the host dropped because nobody read them in time, since the device was made.
    /// None where that cannot be read.
    [[nodiscard]] std::optional<std::uint64_t> dropped() const;

private:
    std::string name_;
    FileDescriptor fd_;
    FileDescriptor control_; ///< any socket: device settings are made through one
};

// Keeps the device's MTU at that of the way to the other side.
//
// A packet that left the device whole must fit the link it is sent on: the kernel would drop it
// there, and its error message would go to an address that nobody has here. The device's own MTU of
// before does not count, or a link that was narrow once would make all later runs narrow.

class MtuKeeper {
public:
    /// `tun` must outlive this.
    MtuKeeper(const Tun& tun, std::vector<IpAddress> neighbors)
        : tun_(tun), neighbors_(std::move(neighbors)) {}

    /// Sets the device's MTU where another is right; warns of neighbors without a route and of a
    /// refusal, once for each.
    void fit();

private:
    [[nodiscard]] std::optional<int> narrowest();
    [[nodiscard]] int wide_enough(int mtu);
    void set(int mtu, int before);

    const Tun& tun_;
    std::vector<IpAddress> neighbors_;
    std::set<IpAddress> without_route_;
    int refused_ = 0; ///< an MTU that could not be set
    int narrow_ = 0;  ///< a link's MTU that is too small for IPv6
    bool told_ = false;
};

/// The MTU for a device when the narrowest route has `route`: within what a device can have, and at
/// least the 1,280 bytes without which the kernel takes IPv6 off the device, where that is needed.
int device_mtu(int route, bool v6);

} // namespace reprise::proxy
