#pragma once
// Leads what clients send to the server over TCP to a device, and nothing else.
//
// The kernel asks its routing rules in their order, and the first one says "local": whoever is to
// see packets to the host's own addresses has to stand before it. So that rule is put in again
// behind new ones, which lead TCP to the port, where it comes in on an interface, to a table of
// their own; the table has each local address with the device as its way. What comes in elsewhere,
// and UDP, stays as it is. Connections that the host's TCP has already break: their segments are
// led to the device too.
//
// A killed front leaves the rules, but its device and with it the table's routes are gone, so that
// the kernel's TCP serves at once. The rules bear a mark, which also says what was changed in the
// host's forwarding; the next start, or `--undo`, removes them and restores the setting. For each
// interface that was made to accept routers' routes while the host forwards there is a rule, too,
// which only records that.

#include "core/base/address.hh"
#include "core/base/netlink.hh"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy::stateless {

class Redirect {
public:
    /// Removes what a killed one left, then leads packets to the device with the number `device`.
    /// Throws SystemError or Error; what was done is undone then.
    /// With `replies` also what the host sends from the UDP port to others.
    Redirect(std::vector<std::string> interfaces, std::uint16_t port, unsigned device,
             bool replies);
    ~Redirect();
    Redirect(const Redirect&) = delete;
    Redirect& operator=(const Redirect&) = delete;

    /// Only removes what a killed front left. Throws SystemError.
    static void repair();

    /// Follows the host's addresses. To be called once a second.
    void refresh();

private:
    using Prefix = std::pair<IpAddress, std::uint8_t>;

    void lead(bool v6);
    void lead_in(bool v6, const std::string& interface);
    void follow(bool v6);
    int change_route(std::uint16_t type, const Prefix& prefix);

    Netlink netlink_;
    Netlink news_;
    std::vector<std::string> interfaces_;
    std::uint16_t port_;
    unsigned device_;
    bool replies_;
    std::vector<bool> families_; ///< whether IPv6, of those in use
    std::set<Prefix> routes_;    ///< in the tables
};

// The host's settings without which it does not forward what comes in on an interface.

/// What has to be changed so that packets of one IP version are forwarded.
enum class Change : std::uint8_t {
    kNone,      ///< they are already
    kInterface, ///< forwarding of this interface alone
    kAll,       ///< forwarding of all interfaces: IPv6 before Linux 6.17
};

/// Routes by the device count only while a process reads it: one that others have made outlives a
/// killed front, and would go on taking the clients' packets.
void follow_carrier(const std::string& device, const std::string& root = "/proc/sys/net");

/// What has to be changed for what comes in on an interface. `root`: where the settings are.
Change needed_change(const std::string& interface, bool v6,
                     const std::string& root = "/proc/sys/net");

/// Throws SystemError.
void make_change(const std::string& interface, bool v6, Change change,
                 const std::string& root = "/proc/sys/net");

/// What make_change() did, here or in a process that was killed.
void undo_change(const std::string& interface, bool v6, Change change,
                 const std::string& root = "/proc/sys/net");

/// The interfaces that accept routes from routers while the host does not forward: those whose
/// accept_ra is 1.
std::vector<std::string> hosts_of_routers(const std::string& root = "/proc/sys/net");

/// Makes such an interface also accept them while the host forwards (accept_ra 2), and back.
void follow_routers(const std::string& interface, bool while_forwarding,
                    const std::string& root = "/proc/sys/net");

} // namespace reprise::proxy::stateless
