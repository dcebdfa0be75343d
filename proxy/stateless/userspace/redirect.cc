#include "proxy/stateless/userspace/redirect.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/netlink.hh"
#include "proxy/rewrite/headers.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <linux/fib_rules.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <ostream>
#include <set>
#include <string>
#include <sys/socket.h>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::proxy::stateless {

namespace {

constexpr std::uint32_t kTable = 53'053;
constexpr std::uint32_t kReplies = 53'054;  // its only route is the default one
constexpr std::uint32_t kFirstPriority = 1; // before every rule but the kernel's own at 0
constexpr std::uint8_t kMark = 0xb4;        // "protocol" of rules and routes; plus the Change
/// Of rules that say where accept_ra became 2.
constexpr std::uint8_t kRoutersMark = kMark + static_cast<std::uint8_t>(Change::kAll) + 1;

std::uint8_t family(bool v6) { return v6 ? AF_INET6 : AF_INET; }

bool write(const std::string& path, const char* value) {
    std::ofstream out(path);
    out << value << std::flush;
    return out.good();
}

/// Addresses that nobody reaches from outside, or not without naming an interface.
bool is_reachable(const IpAddress& address) {
    const auto holds = [&](const char* range) { return known_prefix(range).holds(address); };
    return std::ranges::none_of(std::array{"127.0.0.0/8", "::1/128", "fe80::/10"}, holds);
}

void demand(int error, const char* attempt) {
    if (error == EPERM) {
        throw Error(std::string(attempt) + ": not permitted; run as root");
    }
    if (error != 0) {
        throw SystemError(attempt, error);
    }
}

/// The setting that is changed.
std::string file_of(const std::string& interface, bool v6, Change change, const std::string& root) {
    if (change == Change::kAll) {
        return root + "/ipv6/conf/all/forwarding";
    }
    return v6 ? fmt::format("{}/ipv6/conf/{}/force_forwarding", root, interface)
              : fmt::format("{}/ipv4/conf/{}/forwarding", root, interface);
}

struct Rule {
    std::uint32_t priority = 0;
    std::uint32_t table = 0;
    std::uint8_t mark = 0;
    std::string interface{};
    std::uint8_t protocol = 0; ///< kTcp: to the port, kUdp: from it
    std::uint16_t port = 0;    ///< 0 for all packets
};

std::vector<Rule> rules(Netlink& netlink, bool v6) {
    fib_rule_hdr header{};
    header.family = family(v6);
    NetlinkRequest request(RTM_GETRULE, NLM_F_DUMP, header);
    std::vector<Rule> found;
    netlink.each(request, [&](const NetlinkMessage& message) {
        constexpr size_t kHeader = sizeof(fib_rule_hdr);
        const Bytes mark = message.attribute(kHeader, FRA_PROTOCOL);
        const Bytes name = message.attribute(kHeader, FRA_IIFNAME);
        if (message.header<fib_rule_hdr>().family == family(v6)) {
            found.push_back({.priority = message.number(kHeader, FRA_PRIORITY),
                             .table = message.number(kHeader, FRA_TABLE),
                             .mark = mark.empty() ? std::uint8_t{0} : mark[0],
                             .interface = {name.begin(), std::ranges::find(name, 0)}});
        }
    });
    return found;
}

/// The kernel's errno.
int ask(Netlink& netlink, NetlinkRequest& request) {
    int error = 0;
    netlink.ask(request, error);
    return error;
}

int change_rule(Netlink& netlink, std::uint16_t type, bool v6, const Rule& rule) {
    fib_rule_hdr header{};
    header.family = family(v6);
    header.action = rule.table == RT_TABLE_UNSPEC ? FR_ACT_NOP : FR_ACT_TO_TBL;
    NetlinkRequest request(type, NLM_F_ACK | (type == RTM_NEWRULE ? NLM_F_CREATE | NLM_F_EXCL : 0),
                           header);
    request.add_number(FRA_TABLE, rule.table)
        .add_number(FRA_PRIORITY, rule.priority)
        .add_number(FRA_PROTOCOL, rule.mark);
    if (!rule.interface.empty()) {
        std::array<char, IFNAMSIZ> name{};
        std::ranges::copy(rule.interface, name.begin());
        request.add_number(FRA_IIFNAME, name);
    }
    if (rule.port != 0) {
        const fib_rule_port_range range{.start = rule.port, .end = rule.port};
        request.add_number(FRA_IP_PROTO, rule.protocol)
            .add_number(rule.protocol == kTcp ? FRA_DPORT_RANGE : FRA_SPORT_RANGE, range);
    }
    return ask(netlink, request);
}

void add_rule(Netlink& netlink, bool v6, const Rule& rule) {
    demand(change_rule(netlink, RTM_NEWRULE, v6, rule), "add a routing rule");
}

/// Undoes one of our rules and the changes that it records. `has_own`: the kernel's own first rule
/// is there.
void put_back_rule(Netlink& netlink, bool v6, const Rule& rule, bool has_own) {
    if (rule.mark == kRoutersMark) {
        follow_routers(rule.interface, false);
    } else if (rule.table != RT_TABLE_LOCAL) {
        undo_change(rule.interface, v6, static_cast<Change>(rule.mark - kMark));
    } else if (!has_own) {
        change_rule(netlink, RTM_NEWRULE, v6, {.table = RT_TABLE_LOCAL, .mark = RTPROT_KERNEL});
    }
    change_rule(netlink, RTM_DELRULE, v6, rule);
}

/// Undoes our rules, also those that a killed front left; whether there were any.
bool put_back(Netlink& netlink, bool v6) {
    const std::vector<Rule> now = rules(netlink, v6);
    const bool has_own = std::ranges::any_of(
        now, [](const Rule& rule) { return rule.priority == 0 && rule.table == RT_TABLE_LOCAL; });
    bool done = false;
    for (const Rule& rule : now) {
        if (rule.mark >= kMark && rule.mark <= kRoutersMark) {
            put_back_rule(netlink, v6, rule, has_own);
            done = true;
        }
    }
    return done;
}

void repair_rules(Netlink& netlink, bool v6) {
    if (put_back(netlink, v6)) {
        spdlog::info("event=repaired family={} hint=\"a front that was killed had left its "
                     "routing rules\"",
                     v6 ? 6 : 4);
    }
}

/// The host's addresses of one family, as the kernel's routes have them.
std::set<std::pair<IpAddress, std::uint8_t>> local(Netlink& netlink, bool v6) {
    rtmsg header{};
    header.rtm_family = family(v6);
    NetlinkRequest request(RTM_GETROUTE, NLM_F_DUMP, header);
    std::set<std::pair<IpAddress, std::uint8_t>> found;
    netlink.each(request, [&](const NetlinkMessage& message) {
        const auto route = message.header<rtmsg>();
        const auto to = message.address(sizeof(rtmsg), RTA_DST);
        if (route.rtm_family == family(v6) && route.rtm_table == RT_TABLE_LOCAL &&
            route.rtm_type == RTN_LOCAL && to && to->is_v6() == v6 && is_reachable(*to)) {
            found.emplace(*to, route.rtm_dst_len);
        }
    });
    return found;
}

} // namespace

Redirect::Redirect(std::vector<std::string> interfaces, std::uint16_t port, unsigned device,
                   bool replies)
    : news_({RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR}),
      interfaces_(std::move(interfaces)), port_(port), device_(device), replies_(replies) {
    for (const bool v6 : {false, true}) {
        if (!rules(netlink_, v6).empty()) { // else the kernel goes without this version of IP
            repair_rules(netlink_, v6);
            families_.push_back(v6);
        }
    }
    try {
        for (const bool v6 : families_) {
            follow(v6);
            lead(v6);
        }
    } catch (...) {
        for (const bool v6 : families_) {
            put_back(netlink_, v6);
        }
        throw;
    }
}

void Redirect::repair() {
    Netlink netlink;
    for (const bool v6 : {false, true}) {
        repair_rules(netlink, v6);
    }
}

Redirect::~Redirect() {
    for (const bool v6 : families_) {
        put_back(netlink_, v6);
    }
    for (const Prefix& prefix : routes_) { // a device made by others stays
        change_route(RTM_DELROUTE, prefix);
    }
}

/// At no time is there no rule for local addresses.
void Redirect::lead(bool v6) {
    const std::vector<Rule> before = rules(netlink_, v6);
    const auto is_first = [](const Rule& rule) {
        return rule.priority < kFirstPriority + 1 && rule.table == RT_TABLE_LOCAL;
    };
    const auto first = std::ranges::find_if(before, is_first);
    if (first != before.end()) {
        add_rule(netlink_, v6,
                 {.priority = kFirstPriority + 1, .table = RT_TABLE_LOCAL, .mark = kMark});
    }
    for (const std::string& interface : interfaces_) {
        lead_in(v6, interface);
    }
    if (replies_) {
        add_rule(netlink_, v6,
                 {.priority = kFirstPriority + 3, // behind the host's own addresses
                  .table = kReplies,
                  .mark = kMark,
                  .interface = "lo",
                  .protocol = kUdp,
                  .port = port_});
    }
    if (first != before.end()) {
        demand(change_rule(netlink_, RTM_DELRULE, v6, *first), "remove a routing rule");
    }
}

/// What comes in on one of the interfaces. The rule comes before the change that it records.
void Redirect::lead_in(bool v6, const std::string& interface) {
    const Change change = needed_change(interface, v6);
    add_rule(netlink_, v6,
             {.priority = kFirstPriority,
              .table = kTable,
              .mark = static_cast<std::uint8_t>(kMark + static_cast<unsigned>(change)),
              .interface = interface,
              .protocol = kTcp,
              .port = port_});
    if (change == Change::kAll) {
        // A host that forwards drops the routes that routers announce, unless accept_ra is 2.
        for (const std::string& host : hosts_of_routers()) {
            add_rule(netlink_, true,
                     {.priority = kFirstPriority + 2,
                      .table = RT_TABLE_UNSPEC,
                      .mark = kRoutersMark,
                      .interface = host});
            follow_routers(host, true);
        }
    }
    make_change(interface, v6, change);
}

void Redirect::refresh() {
    bool changed = false;
    while (news_.receive()) {
        changed = true;
    }
    changed = changed || errno == ENOBUFS; // more news than the socket holds
    for (const bool v6 : families_) {
        if (changed) {
            follow(v6);
        }
    }
}

/// The table's routes of one family.
void Redirect::follow(bool v6) {
    std::set<Prefix> wanted = local(netlink_, v6);
    if (replies_) {
        wanted.emplace(IpAddress{.bytes = {}, .family = static_cast<std::uint8_t>(v6 ? 6 : 4)}, 0);
    }
    for (const Prefix& prefix : wanted) {
        if (!routes_.contains(prefix)) {
            demand(change_route(RTM_NEWROUTE, prefix), "add a route to the TUN device");
            routes_.insert(prefix);
        }
    }
    std::erase_if(routes_, [&](const Prefix& prefix) {
        const bool gone = prefix.first.is_v6() == v6 && !wanted.contains(prefix);
        if (gone) {
            change_route(RTM_DELROUTE, prefix);
        }
        return gone;
    });
}

int Redirect::change_route(std::uint16_t type, const Prefix& prefix) {
    rtmsg header{};
    header.rtm_family = family(prefix.first.is_v6());
    header.rtm_dst_len = prefix.second;
    header.rtm_table = RT_TABLE_UNSPEC;
    header.rtm_protocol = kMark;
    header.rtm_scope = prefix.first.is_v6() ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
    header.rtm_type = RTN_UNICAST;
    NetlinkRequest request(
        type, NLM_F_ACK | (type == RTM_NEWROUTE ? NLM_F_CREATE | NLM_F_REPLACE : 0), header);
    if (prefix.second != 0) {
        request.add(RTA_DST, prefix.first);
    }
    request.add_number(RTA_TABLE, prefix.second != 0 ? kTable : kReplies)
        .add_number(RTA_OIF, device_);
    return ask(netlink_, request);
}

void follow_carrier(const std::string& device, const std::string& root) {
    for (const char* const version : {"ipv4", "ipv6"}) { // the host may go without one of them
        static_cast<void>(write(
            fmt::format("{}/{}/conf/{}/ignore_routes_with_linkdown", root, version, device), "1"));
    }
}

Change needed_change(const std::string& interface, bool v6, const std::string& root) {
    if (v6 && first_line(file_of(interface, true, Change::kAll, root).c_str()) == "1") {
        return Change::kNone;
    }
    const std::string own = first_line(file_of(interface, v6, Change::kInterface, root).c_str());
    if (own == "1") {
        return Change::kNone;
    }
    return v6 && own.empty() ? Change::kAll : Change::kInterface;
}

void make_change(const std::string& interface, bool v6, Change change, const std::string& root) {
    const std::string path = file_of(interface, v6, change, root);
    if (change != Change::kNone && !write(path, "1")) {
        throw SystemError("write " + path);
    }
}

void undo_change(const std::string& interface, bool v6, Change change, const std::string& root) {
    if (change != Change::kNone) {
        // The interface may be gone.
        static_cast<void>(write(file_of(interface, v6, change, root), "0"));
    }
}

std::vector<std::string> hosts_of_routers(const std::string& root) {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(root + "/ipv6/conf", error)) {
        if (first_line((entry.path() / "accept_ra").c_str()) == "1") {
            found.push_back(entry.path().filename());
        }
    }
    return found;
}

void follow_routers(const std::string& interface, bool while_forwarding, const std::string& root) {
    const std::string path = fmt::format("{}/ipv6/conf/{}/accept_ra", root, interface);
    if (first_line(path.c_str()) == (while_forwarding ? "1" : "2")) {
        static_cast<void>(write(path, while_forwarding ? "2" : "1")); // the interface may go
    }
}

} // namespace reprise::proxy::stateless
