#include "proxy/stateless/bpf/bpf_front.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/log.hh"
#include "proxy/stateless/bpf/link.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bpf/btf.h>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <ifaddrs.h>
#include <linux/btf.h>
#include <linux/capability.h>
#include <memory>
#include <netinet/in.h>
#include <set>
#include <string>
#include <sys/random.h>
#include <sys/socket.h>

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

void tell_repaired(const Link& link) {
    spdlog::info(
        "event=repaired interface={} hint=\"a front that was killed had left its programs\"",
        link.name());
}

void compute_checksums_again(const Link& link) {
    try {
        if (link.is_there()) {
            link.compute_checksums(true);
        }
    } catch (const SystemError& error) {
        spdlog::warn("event=checksums_stay_off interface={} because={}", link.name(),
                     log_value(error.what()));
    }
}

std::uint16_t below(unsigned mtu, unsigned headers) {
    return static_cast<std::uint16_t>(std::min(mtu > headers ? mtu - headers : 0, 65'535U));
}

} // namespace

BpfFront::BpfFront(const StatelessOptions& options)
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
        tell_repaired(link_);
    }
    // Before Linux 5.19, reading a map also needs the right to load programs.
    if (works_without({CAP_BPF, CAP_PERFMON}, [this] { return programs_.counts().has_value(); })) {
        give_up({CAP_BPF, CAP_PERFMON});
    }
}

BpfFront::~BpfFront() {
    hooks_.reset();
    if (tx_was_on_) {
        compute_checksums_again(link_);
    }
}

void BpfFront::repair(const std::string& interface) {
    const Link link(interface);
    const std::uint32_t before = left_behind(link.index());
    if (before == 0) {
        return;
    }
    remove_programs(link.index(), before);
    if ((before & kTxWasOn) != 0) {
        compute_checksums_again(link);
    }
    tell_repaired(link);
}

void BpfFront::renew_secret() {
    StatelessState& state = programs_.state();
    const std::uint32_t next = (state.current & 1U) ^ 1U;
    fill_randomly(state.keys[next]);
    std::atomic_ref(state.current).store(next, std::memory_order_release);
}

void BpfFront::look_at_host() {
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

void BpfFront::refresh(Nanoseconds now) {
    if (now >= next_secret_) {
        next_secret_ = now + options().rotate_s * kSecond;
        renew_secret();
    }
    look_at_host();
    expired_ += programs_.expire(options().timeout_ms * kMillisecond);
}

Counters BpfFront::counters() {
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

} // namespace reprise::proxy
