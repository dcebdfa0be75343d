#include "proxy/stateless/common/front.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/name_lock.hh"
#include "core/base/netlink.hh"
#include "proxy/service.hh"
#include "proxy/stateless/common/counters.hh"
#include "proxy/stateless/common/options.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string>

namespace reprise::proxy {

unsigned interface_index(const std::string& interface) {
    const unsigned index = if_nametoindex(interface.c_str());
    if (index == 0) {
        throw UsageError(fmt::format("--interface {}: this host has no such interface; `ip link` "
                                     "lists those it has",
                                     interface));
    }
    return index;
}

unsigned interface_mtu(const std::string& interface) {
    Netlink netlink;
    int error = 0;
    const auto link = netlink.ask_link(if_nametoindex(interface.c_str()), error);
    return link ? link->number(sizeof(ifinfomsg), IFLA_MTU) : 0;
}

FileDescriptor lock_interface(const std::string& interface) {
    FileDescriptor fd = take_name("reprise-stateless-" + interface);
    if (!fd.valid()) {
        throw Error(
            fmt::format("--interface {}: another front serves it; stop that one first", interface));
    }
    return fd;
}

Front::Front(const StatelessOptions& options) : options_(options), started_(SteadyClock::now()) {
    for (const std::string& interface : options.interfaces) {
        indices_.push_back(interface_index(interface));
    }
}

void Front::each_second(Nanoseconds now) {
    // One of the same name that is made anew is not what the front was set up on.
    for (size_t i = 0; i < indices_.size(); ++i) {
        if (if_nametoindex(options_.interfaces[i].c_str()) != indices_[i]) {
            throw Error(fmt::format("interface {} has vanished, and the front with it; start it "
                                    "again when the interface is back",
                                    options_.interfaces[i]));
        }
    }
    tick(now);
    if (options_.loglevel >= 2) {
        tell_second();
    }
}

std::string Front::statistics() {
    return to_json(counters(), options_, SteadyClock::now() - started_, cpu_seconds());
}

void Front::tell_ready() {
    if (options_.front == FrontKind::kReference && !options_.active) {
        spdlog::info("event=inactive front={} interface={} hint=\"the kernel's TCP serves; give "
                     "--active 1\"",
                     front_name(options_.front), fmt::join(options_.interfaces, ","));
    } else {
        spdlog::info("event=ready front={} interface={}", front_name(options_.front),
                     fmt::join(options_.interfaces, ","));
    }
}

void Front::tell_end() {
    const Counters now = counters();
    spdlog::info("event=end syn={} queries={} replies={} segments={} malformed={}", now.syn,
                 now.queries, now.replies, now.segments, now.malformed);
}

void Front::tell_second() {
    const Counters now = counters();
    spdlog::info("event=second syn={} queries={} replies={} fin={} rst={} in_flight={}",
                 now.syn - told_.syn, now.queries - told_.queries, now.replies - told_.replies,
                 now.fin - told_.fin, now.rst - told_.rst, now.entries);
    told_ = now;
}

} // namespace reprise::proxy
