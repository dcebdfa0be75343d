#include "proxy/stateless/bpf/link.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/netlink.hh"
#include "proxy/stateless/common/front.hh"

#include <fmt/format.h>

#include <algorithm>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdint>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

std::uint32_t ethtool(int control, const std::string& name, std::uint32_t command,
                      std::uint32_t value) {
    ethtool_value setting{.cmd = command, .data = value};
    ifreq ask{};
    name.copy(ask.ifr_name, IFNAMSIZ - 1);
    ask.ifr_data = reinterpret_cast<char*>(&setting);
    check(ioctl(control, SIOCETHTOOL, &ask),
          fmt::format("ioctl SIOCETHTOOL (checksums of {})", name).c_str());
    return setting.data;
}

} // namespace

Link::Link(const std::string& name)
    : name_(name), index_(static_cast<int>(if_nametoindex(name.c_str()))),
      control_(check(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket")) {
    int error = 0;
    Netlink netlink;
    const auto found = netlink.ask_link(static_cast<unsigned>(index_), error);
    if (!found) {
        throw SystemError("look at the interface " + name, error);
    }
    if (found->header<ifinfomsg>().ifi_type != ARPHRD_ETHER) {
        throw UsageError(fmt::format("--interface {}: its packets have no Ethernet header, which "
                                     "--front bpf needs; give an Ethernet or veth interface, or "
                                     "--front reference",
                                     name));
    }
    // What leaves such a port was made for another interface, with its offloads.
    if (found->number(sizeof(ifinfomsg), IFLA_MASTER) != 0) {
        throw UsageError(fmt::format("--interface {}: it is a port of another interface (a bridge, "
                                     "bond or VRF); give an interface of its own, or --front "
                                     "reference",
                                     name));
    }
    lock_ = lock_interface(name);
}

bool Link::is_there() const { return static_cast<int>(if_nametoindex(name_.c_str())) == index_; }

bool Link::computes_checksums() const {
    return ethtool(control_.get(), name_, ETHTOOL_GTXCSUM, 0) != 0;
}

void Link::compute_checksums(bool on) const {
    static_cast<void>(ethtool(control_.get(), name_, ETHTOOL_STXCSUM, on ? 1 : 0));
}

namespace {

/// By these our filters are known among others. The handle's upper half says what was changed.
constexpr std::uint32_t kHandle = 0x5354;
constexpr std::uint32_t kPriority = 0x5354;

struct Filter {
    bpf_tc_attach_point point;
    std::uint32_t priority;
    std::uint32_t handle;

    [[nodiscard]] bool is_ours() const {
        return priority == kPriority && (handle & 0xffffU) == kHandle;
    }
};

bpf_tc_hook hook(int interface, bpf_tc_attach_point point) {
    bpf_tc_hook made{};
    made.sz = sizeof made;
    made.ifindex = interface;
    made.attach_point = point;
    return made;
}

bpf_tc_opts options_of(std::uint32_t handle) {
    bpf_tc_opts made{};
    made.sz = sizeof made;
    made.handle = handle;
    made.priority = kPriority;
    return made;
}

void attach(int interface, bpf_tc_attach_point point, std::uint32_t handle, int program) {
    const bpf_tc_hook at = hook(interface, point);
    bpf_tc_opts options = options_of(handle);
    options.prog_fd = program;
    options.flags = BPF_TC_F_REPLACE;
    const int error = bpf_tc_attach(&at, &options);
    if (error != 0) {
        throw SystemError("attach the BPF program to the interface", -error);
    }
}

/// All at both hooks, others' too.
std::vector<Filter> filters(int interface) {
    Netlink netlink;
    std::vector<Filter> found;
    for (const auto& [point, parent] :
         {std::pair{BPF_TC_INGRESS, TC_H_MIN_INGRESS}, std::pair{BPF_TC_EGRESS, TC_H_MIN_EGRESS}}) {
        tcmsg header{};
        header.tcm_ifindex = interface;
        header.tcm_parent = TC_H_MAKE(TC_H_CLSACT, parent);
        NetlinkRequest request(RTM_GETTFILTER, NLM_F_DUMP, header);
        netlink.each(request, [&found, at = point](const NetlinkMessage& message) {
            if (message.type() == RTM_NEWTFILTER) {
                const auto one = message.header<tcmsg>();
                found.push_back(
                    {.point = at, .priority = one.tcm_info >> 16U, .handle = one.tcm_handle});
            }
        });
    }
    return found;
}

/// Our filters but the one with the handle `but`.
void detach_all(int interface, std::uint32_t but = 0) {
    for (const Filter& filter : filters(interface)) {
        if (filter.is_ours() && filter.handle != but) {
            const bpf_tc_hook at = hook(interface, filter.point);
            const bpf_tc_opts options = options_of(filter.handle);
            static_cast<void>(bpf_tc_detach(&at, &options));
        }
    }
}

} // namespace

Hooks::Hooks(int interface, int in, int out, bool tx_was_on)
    : interface_(interface), handle_(kHandle | (tx_was_on ? kTxWasOn : 0)) {
    const std::uint32_t before = left_behind(interface);
    bpf_tc_hook both =
        hook(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
    const int error = bpf_tc_hook_create(&both);
    if (error != 0 && error != -EEXIST) {
        throw SystemError("make the tc hooks of the interface (qdisc clsact)", -error);
    }
    handle_ |= error == 0 ? kHooksAreOurs : before & kHooksAreOurs;
    try {
        attach(interface, BPF_TC_INGRESS, handle_, in);
        attach(interface, BPF_TC_EGRESS, handle_, out);
    } catch (...) {
        remove_programs(interface, handle_);
        throw;
    }
    detach_all(interface, handle_); // of an earlier front that had changed something else
}

Hooks::~Hooks() { remove_programs(interface_, handle_); }

void remove_programs(int interface, std::uint32_t handle) {
    detach_all(interface);
    if ((handle & kHooksAreOurs) != 0 && filters(interface).empty()) {
        bpf_tc_hook both =
            hook(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
        static_cast<void>(bpf_tc_hook_destroy(&both));
    }
}

std::uint32_t left_behind(int interface) {
    const std::vector<Filter> all = filters(interface);
    const auto ours = std::ranges::find_if(all, &Filter::is_ours);
    return ours == all.end() ? 0 : ours->handle;
}

} // namespace reprise::proxy
