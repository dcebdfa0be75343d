#include "proxy/stateless/bpf/hooks.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/netlink.hh"
#include "proxy/stateless/bpf/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <set>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace reprise::proxy {

namespace {

/// By these our filters are known among others.
constexpr std::uint32_t kHandle = 0x5354;
constexpr std::uint32_t kPriority = 0x5354;

bpf_tc_hook hook(int interface, bpf_tc_attach_point point) {
    bpf_tc_hook made{};
    made.sz = sizeof made;
    made.ifindex = interface;
    made.attach_point = point;
    return made;
}

bpf_tc_opts ours() {
    bpf_tc_opts made{};
    made.sz = sizeof made;
    made.handle = kHandle;
    made.priority = kPriority;
    return made;
}

std::uint32_t program_at(int interface, bpf_tc_attach_point point) {
    const bpf_tc_hook at = hook(interface, point);
    bpf_tc_opts query = ours();
    return bpf_tc_query(&at, &query) == 0 ? query.prog_id : 0;
}

void attach(int interface, bpf_tc_attach_point point, int program) {
    const bpf_tc_hook at = hook(interface, point);
    bpf_tc_opts options = ours();
    options.prog_fd = program;
    options.flags = BPF_TC_F_REPLACE;
    const int error = bpf_tc_attach(&at, &options);
    if (error != 0) {
        throw SystemError("attach the BPF program to the interface", -error);
    }
}

void detach(int interface, bpf_tc_attach_point point) {
    const bpf_tc_hook at = hook(interface, point);
    const bpf_tc_opts options = ours();
    static_cast<void>(bpf_tc_detach(&at, &options));
}

/// Of the filters at the hooks.
std::set<std::uint32_t> priorities(int interface) {
    std::set<std::uint32_t> found;
    for (const std::uint32_t side : {TC_H_MIN_INGRESS, TC_H_MIN_EGRESS}) {
        const tcmsg header{.tcm_family = AF_UNSPEC,
                           .tcm__pad1 = 0,
                           .tcm__pad2 = 0,
                           .tcm_ifindex = interface,
                           .tcm_handle = 0,
                           .tcm_parent = TC_H_MAKE(TC_H_CLSACT, side),
                           .tcm_info = 0};
        NetlinkRequest request(RTM_GETTFILTER, NLM_F_DUMP, header);
        Netlink netlink;
        netlink.each(request, [&found](const NetlinkMessage& message) {
            if (message.type() == RTM_NEWTFILTER) {
                found.insert(message.header<tcmsg>().tcm_info >> 16U);
            }
        });
    }
    return found;
}

std::optional<StatelessState> state_of(std::uint32_t map) {
    const FileDescriptor fd(bpf_map_get_fd_by_id(map));
    bpf_map_info info{};
    std::uint32_t size = sizeof info;
    if (!fd.valid() || bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0 ||
        !std::string_view(info.name).ends_with(".bss") ||
        info.value_size < sizeof(StatelessState)) {
        return std::nullopt;
    }
    std::vector<std::uint8_t> value(info.value_size);
    const std::uint32_t first = 0;
    if (bpf_map_lookup_elem(fd.get(), &first, value.data()) != 0) {
        return std::nullopt;
    }
    StatelessState state;
    std::memcpy(&state, value.data(), sizeof state);
    return state;
}

} // namespace

Hooks::Hooks(int interface, int in, int out) : interface_(interface) {
    const auto before = left_behind(interface);
    bpf_tc_hook both =
        hook(interface, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
    const int error = bpf_tc_hook_create(&both);
    if (error != 0 && error != -EEXIST) {
        throw SystemError("make the tc hooks of the interface (qdisc clsact)", -error);
    }
    whole_ = error == 0 || (before && before->hooks_are_ours != 0);
    try {
        attach(interface, BPF_TC_INGRESS, in);
        attach(interface, BPF_TC_EGRESS, out);
    } catch (...) {
        remove();
        throw;
    }
}

Hooks::~Hooks() { remove(); }

void Hooks::remove() const {
    detach(interface_, BPF_TC_INGRESS);
    detach(interface_, BPF_TC_EGRESS);
    if (whole_ && priorities(interface_).empty()) {
        bpf_tc_hook both =
            hook(interface_, static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS));
        static_cast<void>(bpf_tc_hook_destroy(&both));
    }
}

bool has_programs(int interface) { return priorities(interface).contains(kPriority); }

std::optional<StatelessState> left_behind(int interface) {
    const std::uint32_t program = program_at(interface, BPF_TC_INGRESS);
    const FileDescriptor fd(program == 0 ? -1 : bpf_prog_get_fd_by_id(program));
    if (!fd.valid()) {
        return std::nullopt;
    }
    std::array<std::uint32_t, 16> maps{};
    bpf_prog_info info{};
    info.nr_map_ids = maps.size();
    info.map_ids = reinterpret_cast<std::uintptr_t>(maps.data());
    std::uint32_t size = sizeof info;
    if (bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) {
        return std::nullopt;
    }
    for (size_t i = 0; i < std::min<size_t>(info.nr_map_ids, maps.size()); ++i) {
        if (const auto state = state_of(maps[i])) {
            return state;
        }
    }
    return std::nullopt;
}

} // namespace reprise::proxy
