#pragma once
// The host's settings without which it does not forward what comes in on an interface.

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::proxy::stateless {

/// What has to be changed so that packets of one IP version are forwarded.
enum class Change : std::uint8_t {
    kNone,      ///< they are already
    kInterface, ///< forwarding of this interface alone
    kAll,       ///< forwarding of all interfaces: IPv6 before Linux 6.17
};

/// Routes by the device count only while a process reads it: one that others have made outlives a
/// killed front, and would go on taking the clients' packets.
void follow_carrier(const std::string& device, const std::string& root = "/proc/sys/net");

class Forwarding {
public:
    /// `root`: where the settings are.
    explicit Forwarding(std::string interface, std::string root = "/proc/sys/net");

    [[nodiscard]] Change needed(bool v6) const;

    /// Throws SystemError.
    void make(bool v6, Change change) const;

    /// What make() did, here or in a process that was killed.
    void undo(bool v6, Change change) const;

private:
    [[nodiscard]] std::string file(bool v6, Change change) const;

    std::string interface_;
    std::string root_;
};

/// The interfaces that accept routes from routers while the host does not forward: those whose
/// accept_ra is 1.
std::vector<std::string> hosts_of_routers(const std::string& root = "/proc/sys/net");

/// Makes such an interface also accept them while the host forwards (accept_ra 2), and back.
void follow_routers(const std::string& interface, bool while_forwarding,
                    const std::string& root = "/proc/sys/net");

} // namespace reprise::proxy::stateless
