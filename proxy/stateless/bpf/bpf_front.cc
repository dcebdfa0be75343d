#include "proxy/stateless/bpf/bpf_front.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/host.hh"
#include "core/base/log.hh"
#include "core/base/netlink.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <ifaddrs.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <memory>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <string>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {

namespace {

constexpr unsigned kV4AndTcp = 40;
constexpr unsigned kV6AndTcp = 60;
constexpr int kMostReadings = 100; ///< until two counters are of one moment

/// The kernel's TCP takes a connection in its middle by a function of newer kernels, and by its SYN
/// cookies only.
void check_promotion() {
    btf* const types = btf__load_vmlinux_btf();
    const bool has_it = types != nullptr &&
                        btf__find_by_name_kind(types, "bpf_sk_assign_tcp_reqsk", BTF_KIND_FUNC) > 0;
    btf__free(types);
    if (!has_it) {
        throw Error("this kernel cannot take over connections (bpf_sk_assign_tcp_reqsk, Linux 6.9 "
                    "or newer); give --promote=false: those that are not one query and one "
                    "segment are reset then");
    }
    if (first_line("/proc/sys/net/ipv4/tcp_syncookies") == "0") {
        throw Error("SYN cookies are off, without which the kernel takes over no connection; turn "
                    "them on with `sysctl -w net.ipv4.tcp_syncookies=1`, or give "
                    "--promote=false");
    }
}

StatelessSettings settings_of(const StatelessOptions& options) {
    if (options.promote) {
        check_promotion();
    }
    StatelessSettings settings{};
    settings.port = htons(options.port);
    settings.truncate = static_cast<std::uint16_t>(options.truncate_udp);
    settings.promote = options.promote ? 1 : 0;
    settings.early_ack = options.early_ack ? 1 : 0;
    settings.axfr_detect = options.axfr_detect ? 1 : 0;
    settings.timed = options.timed ? 1 : 0;
    return settings;
}

std::set<LocalAddress> local_addresses() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) {
        throw SystemError("getifaddrs");
    }
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(list, freeifaddrs);
    std::set<LocalAddress> found;
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
        LocalAddress address{};
        if (family == AF_INET) {
            address[10] = address[11] = 0xff;
            std::memcpy(&address[12],
                        &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, 4);
            found.insert(address);
        } else if (family == AF_INET6) {
            std::memcpy(address.data(),
                        &reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr, 16);
            found.insert(address);
        }
    }
    return found;
}

void fill_randomly(__u64 (&key)[2]) {
    if (getrandom(&key, sizeof key, 0) != ssize_t{sizeof key}) {
        throw SystemError("getrandom");
    }
}

std::uint16_t below(unsigned mtu, unsigned headers) {
    return static_cast<std::uint16_t>(std::min(mtu > headers ? mtu - headers : 0, 65'535U));
}

/// An Ethernet interface that this process alone has a front on, as long as this lives.
class Link {
public:
    /// Throws UsageError for an interface that has no Ethernet header, Error where another front is
    /// on it, SystemError.
    explicit Link(const std::string& name)
        : name_(name), index_(static_cast<int>(if_nametoindex(name.c_str()))),
          control_(check(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket")) {
        int error = 0;
        Netlink netlink;
        const auto found = netlink.ask_link(static_cast<unsigned>(index_), error);
        if (!found) {
            throw SystemError("look at the interface " + name, error);
        }
        if (found->header<ifinfomsg>().ifi_type != ARPHRD_ETHER) {
            throw UsageError(fmt::format("--interface {}: its packets have no Ethernet header, "
                                         "which --front bpf needs; give an Ethernet or veth "
                                         "interface, or --front reference",
                                         name));
        }
        // What leaves such a port was made for another interface, with its offloads.
        if (found->number(sizeof(ifinfomsg), IFLA_MASTER) != 0) {
            throw UsageError(fmt::format("--interface {}: it is a port of another interface (a "
                                         "bridge, bond or VRF); give an interface of its own, or "
                                         "--front reference",
                                         name));
        }
        lock_ = lock_interface(name);
    }

    [[nodiscard]] const std::string& name() const { return name_; }

    [[nodiscard]] int index() const { return index_; }

    /// Whether the interface computes the checksums of packets that it sends.
    [[nodiscard]] bool computes_checksums() const { return ethtool(ETHTOOL_GTXCSUM, 0) != 0; }

    /// Turns that on or off. Throws SystemError.
    void compute_checksums(bool on) const { ethtool(ETHTOOL_STXCSUM, on ? 1 : 0); }

    /// At the end, when the interface may be gone.
    void compute_checksums_again() const {
        try {
            if (static_cast<int>(if_nametoindex(name_.c_str())) == index_) {
                compute_checksums(true);
            }
        } catch (const SystemError& error) {
            spdlog::warn("event=checksums_stay_off interface={} because={}", name_,
                         log_value(error.what()));
        }
    }

    void tell_repaired() const {
        spdlog::info("event=repaired interface={} hint=\"a front that was killed had left its "
                     "programs\"",
                     name_);
    }

private:
    std::uint32_t ethtool(std::uint32_t command, std::uint32_t value) const {
        ethtool_value setting{.cmd = command, .data = value};
        ifreq ask{};
        name_.copy(ask.ifr_name, IFNAMSIZ - 1);
        ask.ifr_data = reinterpret_cast<char*>(&setting);
        check(ioctl(control_.get(), SIOCETHTOOL, &ask),
              fmt::format("ioctl SIOCETHTOOL (checksums of {})", name_).c_str());
        return setting.data;
    }

    std::string name_;
    int index_ = 0;
    FileDescriptor control_; ///< any socket
    FileDescriptor lock_;    ///< its name is the interface's, in this network namespace
};

// The tc hooks of the interface, where packets come in and leave.

/// By these our filters are known among others.
constexpr std::uint32_t kHandle = 0x5354;
constexpr std::uint32_t kPriority = 0x5354;

/// What a front changes at an interface besides its programs. The upper half of their filters'
/// handle says it, which any process may read; what is in a program's maps takes all rights of
/// root.
constexpr std::uint32_t kHooksAreOurs = 1U << 16U; ///< the qdisc was not there before
/// The interface computed checksums before the front turned that off.
constexpr std::uint32_t kTxWasOn = 1U << 17U;

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

/// The interface's hooks, both at once.
bpf_tc_hook both_hooks(int interface) {
    return hook(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
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

/// The handle of a front's filters at the interface; 0 where there are none. One that was killed
/// while it started or ended has left only one. A front that lives has the interface's lock.
std::uint32_t left_behind(int interface) {
    const std::vector<Filter> all = filters(interface);
    const auto ours = std::ranges::find_if(all, &Filter::is_ours);
    return ours == all.end() ? 0 : ours->handle;
}

/// Removes our programs from an interface, and the hooks where their handle says that they are
/// ours.
void remove_programs(int interface, std::uint32_t handle) {
    detach_all(interface);
    if ((handle & kHooksAreOurs) != 0 && filters(interface).empty()) {
        bpf_tc_hook both = both_hooks(interface);
        static_cast<void>(bpf_tc_hook_destroy(&both));
    }
}

/// Our programs at both hooks, until the end of this.
class Hooks {
public:
    /// Puts the programs, by their descriptors, in the place of those that an earlier front has
    /// left. Throws SystemError.
    Hooks(int interface, int in, int out, bool tx_was_on)
        : interface_(interface), handle_(kHandle | (tx_was_on ? kTxWasOn : 0)) {
        const std::uint32_t before = left_behind(interface);
        bpf_tc_hook both = both_hooks(interface);
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

    ~Hooks() { remove_programs(interface_, handle_); }

    Hooks(const Hooks&) = delete;
    Hooks& operator=(const Hooks&) = delete;

private:
    int interface_;
    std::uint32_t handle_;
};

class BpfFront final : public Front {
public:
    explicit BpfFront(const StatelessOptions& options)
        : Front(options), link_(options.interfaces.front()),
          programs_(settings_of(options), options.entries) {
        const std::uint32_t before = left_behind(link_.index());
        StatelessState& state = programs_.state();
        fill_randomly(state.keys[0]); // also that of "the last period", which nobody knows
        renew_secret();
        look_at_host();
        tx_was_on_ = link_.computes_checksums() || (before & kTxWasOn) != 0;
        next_secret_ = SteadyClock::now() + options.rotate_s * kSecond;
        hooks_.emplace(link_.index(), programs_.in(), programs_.out(), tx_was_on_);
        link_.compute_checksums(false);
        if (before != 0) {
            link_.tell_repaired();
        }
        // Before Linux 5.19, reading a map also needs the right to load programs.
        if (works_without({CAP_BPF, CAP_PERFMON},
                          [this] { return programs_.counts().has_value(); })) {
            give_up({CAP_BPF, CAP_PERFMON});
        }
    }

    ~BpfFront() override {
        hooks_.reset();
        if (tx_was_on_) {
            link_.compute_checksums_again();
        }
    }

    [[nodiscard]] Counters counters() override {
        Counters c{programs_.counts().value_or(StatelessCounts{})};
        c.segments = c.replies;
        c.expired = expired_;
        const std::atomic_ref in_flight(programs_.state().in_flight);
        const std::atomic_ref lived(programs_.state().lived);
        __u64 time = 0;
        for (int i = 0; i < kMostReadings; ++i) { // both of one moment
            c.entries = in_flight.load();
            time = lived.load();
            if (in_flight.load() == c.entries && lived.load() == time) {
                break;
            }
        }
        c.entries_limit = options().entries;
        // One that goes may be counted after the one that took its place.
        c.entries_peak = std::min(std::atomic_ref(programs_.state().most_in_flight).load(),
                                  __u64{options().entries});
        const auto now = static_cast<__u64>(read_clock(CLOCK_MONOTONIC));
        c.entries_lived = static_cast<Nanoseconds>(time + c.entries * now);
        c.bytes_per_entry = kBytesPerEntry;
        c.state_bytes = c.entries * kBytesPerEntry;
        c.memory_bytes = programs_.memory();
        return c;
    }

private:
    void refresh(Nanoseconds now) override {
        if (now >= next_secret_) {
            next_secret_ = now + options().rotate_s * kSecond;
            renew_secret();
        }
        look_at_host();
        expired_ += programs_.expire(options().timeout_ms * kMillisecond);
    }

    void renew_secret() {
        StatelessState& state = programs_.state();
        const std::uint32_t next = (state.current & 1U) ^ 1U;
        fill_randomly(state.keys[next]);
        std::atomic_ref(state.current).store(next, std::memory_order_release);
    }

    void look_at_host() {
        if (hooks_ && link_.computes_checksums()) {
            spdlog::warn("event=checksums_on interface={} because=\"somebody turned them on\" "
                         "hint=\"they are off again, which the front needs\"",
                         link_.name());
            link_.compute_checksums(false);
        }
        const unsigned mtu = interface_mtu(link_.name());
        programs_.state().mss4 = below(mtu, kV4AndTcp);
        programs_.state().mss6 = below(mtu, kV6AndTcp);
        programs_.serve(local_addresses());
    }

    Link link_;
    Programs programs_;
    std::optional<Hooks> hooks_;
    bool tx_was_on_ = false; ///< the interface computed checksums
    Nanoseconds next_secret_ = 0;
    std::uint64_t expired_ = 0;
};

} // namespace

std::unique_ptr<Front> make_bpf_front(const StatelessOptions& options) {
    return std::make_unique<BpfFront>(options);
}

void repair_bpf_interface(const std::string& interface) {
    if (if_nametoindex(interface.c_str()) == 0) {
        return; // all went with it
    }
    const Link link(interface);
    const std::uint32_t before = left_behind(link.index());
    if (before == 0) {
        return;
    }
    remove_programs(link.index(), before);
    if ((before & kTxWasOn) != 0) {
        link.compute_checksums_again();
    }
    link.tell_repaired();
}

void refuse_programs(const std::string& interface) {
    if (left_behind(static_cast<int>(interface_index(interface))) != 0) {
        static_cast<void>(lock_interface(interface)); // says so where that front still runs
        throw Error(fmt::format("--interface {}: programs of a killed --front bpf still serve it; "
                                "remove them with `reprise-proxy stateless --front bpf "
                                "--interface {} --undo`",
                                interface, interface));
    }
}

} // namespace reprise::proxy
