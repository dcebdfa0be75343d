#include "proxy/stateless/common/front.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/netlink.hh"
#include "core/base/text.hh"
#include "proxy/service.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/options.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string>
#include <string_view>

namespace reprise::proxy {

namespace {

std::string_view front_name(FrontKind front) {
    return front == FrontKind::kReference ? "reference" : "bpf";
}

/// Only the reasons that occurred.
Json by_reason(const __u64 (&counts)[kReasons]) {
    Json out = Json::object();
    for (size_t i = 0; i < kReasons; ++i) {
        if (counts[i] != 0) {
            out[std::string(kReasonNames[i])] = counts[i];
        }
    }
    return out;
}

} // namespace

std::string to_json(const Counters& c, const StatelessOptions& options, Nanoseconds running,
                    double cpu_seconds) {
    const auto seconds = [](auto time) { return static_cast<double>(time) / double{kSecond}; };
    const auto run_time = [&](__u64 time) { return options.timed ? Json(seconds(time)) : Json(); };
    const Json json{{"schema", 1},
                    {"kind", "stateless"},
                    {"front", front_name(options.front)},
                    {"interface", joined(options.interfaces, ",")},
                    {"port", options.port},
                    {"promotion", options.front == FrontKind::kBpf && options.promote},
                    {"seconds", seconds(running)},
                    {"cpu_seconds", cpu_seconds},
                    {"in_seconds", run_time(c.in_time)},
                    {"out_seconds", run_time(c.out_time)},
                    {"syn", c.syn},
                    {"syn_ack", c.syn_ack},
                    {"handshake_ack", c.handshake_ack},
                    {"queries", c.queries},
                    {"retransmitted", c.retransmitted},
                    {"replies", c.replies},
                    {"segments", c.segments},
                    {"fin", c.fin},
                    {"rst", c.rst},
                    {"reset", c.reset},
                    {"promoted", by_reason(c.promoted)},
                    {"not_promoted", by_reason(c.not_promoted)},
                    {"refused_cookies", c.refused_cookies},
                    {"waiting", c.waiting},
                    {"evictions", c.evictions},
                    {"expired", c.expired},
                    {"late", c.late},
                    {"unsent", c.unsent},
                    {"truncated", c.truncated},
                    {"malformed", c.malformed},
                    {"passed", c.passed},
                    {"entries", c.entries},
                    {"entries_peak", c.entries_peak},
                    {"entries_limit", c.entries_limit},
                    {"entry_seconds", seconds(c.entries_lived)},
                    {"bytes_per_entry", c.bytes_per_entry},
                    {"state_bytes", c.state_bytes},
                    {"memory_bytes", c.memory_bytes}};
    return json.dump(2) + "\n";
}

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
    refresh(now);
    if (options_.loglevel >= 2) {
        const Counters all = counters();
        spdlog::info("event=second syn={} queries={} replies={} fin={} rst={} in_flight={}",
                     all.syn - told_.syn, all.queries - told_.queries, all.replies - told_.replies,
                     all.fin - told_.fin, all.rst - told_.rst, all.entries);
        told_ = all;
    }
}

std::string Front::statistics() {
    return to_json(counters(), options_, SteadyClock::now() - started_, cpu_seconds());
}

void Front::tell_ready() {
    if (options_.front == FrontKind::kReference && !options_.active) {
        spdlog::info("event=inactive front={} interface={} hint=\"the kernel's TCP serves; give "
                     "--active 1\"",
                     front_name(options_.front), joined(options_.interfaces, ","));
    } else {
        spdlog::info("event=ready front={} interface={}", front_name(options_.front),
                     joined(options_.interfaces, ","));
    }
}

void Front::tell_end() {
    const Counters now = counters();
    spdlog::info("event=end syn={} queries={} replies={} segments={} malformed={}", now.syn,
                 now.queries, now.replies, now.segments, now.malformed);
}

} // namespace reprise::proxy
