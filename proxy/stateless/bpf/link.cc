#include "proxy/stateless/bpf/link.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/netlink.hh"
#include "proxy/stateless/common/front.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace reprise::proxy {

namespace {

ifreq request(const std::string& name) {
    ifreq ask{};
    std::copy_n(name.begin(), std::min<size_t>(name.size(), IFNAMSIZ - 1), ask.ifr_name);
    return ask;
}

FileDescriptor control_socket() {
    return FileDescriptor(check(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
}

void check_ethernet(int control, const std::string& name) {
    ifreq ask = request(name);
    check(ioctl(control, SIOCGIFHWADDR, &ask), "ioctl SIOCGIFHWADDR");
    if (ask.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
        throw UsageError(fmt::format("--interface {}: its packets have no Ethernet header, which "
                                     "--front bpf needs; give an Ethernet or veth interface, or "
                                     "--front reference",
                                     name));
    }
}

/// What leaves a port of a bridge or bond was made for that interface, with its offloads.
void check_alone(int index, const std::string& name) {
    const ifinfomsg header{.ifi_family = AF_UNSPEC,
                           .__ifi_pad = 0,
                           .ifi_type = 0,
                           .ifi_index = index,
                           .ifi_flags = 0,
                           .ifi_change = 0};
    NetlinkRequest request(RTM_GETLINK, 0, header);
    Netlink netlink;
    int error = 0;
    const auto found = netlink.ask(request, error);
    if (found && found->number(sizeof header, IFLA_MASTER) != 0) {
        throw UsageError(fmt::format("--interface {}: it is a port of another interface (a bridge, "
                                     "bond or VRF); give an interface of its own, or --front "
                                     "reference",
                                     name));
    }
}

std::uint32_t ethtool(int control, const std::string& name, std::uint32_t command,
                      std::uint32_t value) {
    ethtool_value setting{.cmd = command, .data = value};
    ifreq ask = request(name);
    ask.ifr_data = reinterpret_cast<char*>(&setting);
    check(ioctl(control, SIOCETHTOOL, &ask),
          fmt::format("ioctl SIOCETHTOOL (checksums of {})", name).c_str());
    return setting.data;
}

} // namespace

Link::Link(const std::string& name)
    : name_(name), index_(static_cast<int>(if_nametoindex(name.c_str()))),
      control_(control_socket()) {
    check_ethernet(control_.get(), name);
    check_alone(index_, name);
    lock_ = lock_interface(name);
}

bool Link::is_there() const { return static_cast<int>(if_nametoindex(name_.c_str())) == index_; }

unsigned Link::mtu() const {
    ifreq ask = request(name_);
    return ioctl(control_.get(), SIOCGIFMTU, &ask) == 0 ? static_cast<unsigned>(ask.ifr_mtu) : 0;
}

bool Link::computes_checksums() const {
    return ethtool(control_.get(), name_, ETHTOOL_GTXCSUM, 0) != 0;
}

void Link::compute_checksums(bool on) const {
    static_cast<void>(ethtool(control_.get(), name_, ETHTOOL_STXCSUM, on ? 1 : 0));
}

} // namespace reprise::proxy
