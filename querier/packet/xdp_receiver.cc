#include "querier/packet/xdp_receiver.hh"

#include "core/base/address.hh"
#include "core/base/bpf.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "packet_receive_bpf.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace reprise::querier {
namespace {

/// Room for the fragments of some hundred replies besides.
constexpr size_t kLeastRing = 1 << 20;
constexpr size_t kLargestRing = 64 << 20;
/// What a reply that is kept whole takes in the ring at most, in packets of 1,500 bytes.
constexpr size_t kWholeReply = 1600;

size_t ring_size(size_t replies, bool whole) {
    const size_t each = whole ? kWholeReply : sizeof(PacketRecord) + BPF_RINGBUF_HDR_SZ;
    return std::clamp(std::bit_ceil(replies * each), kLeastRing, kLargestRing);
}

void set_server(const std::optional<Endpoint>& server, __u8* address, __u16& port) {
    if (server) {
        std::memcpy(address, server->address.bytes.data(), server->address.size());
        port = htons(server->port);
    }
}

constexpr auto* kMap = "map the ring of replies";

} // namespace

XdpReceiver::XdpReceiver(const Servers& servers, size_t replies, bool whole)
    : object_(open_bpf(bpf::packet_receive_bpf(), "receive")),
      mask_(ring_size(replies, whole) - 1) {
    const size_t size = mask_ + 1;
    PacketServers from{};
    set_server(servers.v4, from.v4, from.port4);
    set_server(servers.v6, from.v6, from.port6);
    from.whole = whole ? 1 : 0;
    check(
        bpf_map__set_max_entries(bpf_map_of(object_, "replies"), static_cast<std::uint32_t>(size)),
        "size the ring of replies");
    check(bpf_map__set_initial_value(bpf_map_of(object_, ".rodata"), &from, sizeof from),
          "name the servers to the XDP program");
    const int error = bpf_object__load(object_.get());
    if (error != 0) {
        throw SystemError("load the XDP program", -error);
    }
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const int ring = bpf_map__fd(bpf_map_of(object_, "replies"));
    ours_ = Mapping(page, ring, 0, kMap);
    theirs_ = Mapping(page + 2 * size, ring, page, kMap, PROT_READ);
    consumed_ = reinterpret_cast<std::uint64_t*>(ours_.at(0));
    produced_ = reinterpret_cast<std::uint64_t*>(theirs_.at(0));
    data_ = theirs_.at(page);
    written_ = Mapping(page, bpf_map__fd(bpf_map_of(object_, ".bss")), 0, kMap, PROT_READ);
    program_ = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), "reprise_receive"));
}

std::string XdpReceiver::attach(const PacketRoute& route) {
    struct Mode {
        const char* name;
        std::uint32_t flags;
    };

    for (const Mode& mode :
         {Mode{"native", XDP_FLAGS_DRV_MODE}, Mode{"generic", XDP_FLAGS_SKB_MODE}}) {
        bpf_link_create_opts options{};
        options.sz = sizeof options;
        options.flags = mode.flags;
        const int fd =
            bpf_link_create(program_, static_cast<int>(route.interface), BPF_XDP, &options);
        if (fd >= 0) {
            links_.emplace_back(fd);
            return mode.name;
        }
        if (errno == EBUSY) {
            break;
        }
    }
    throw SystemError(fmt::format("attach the XDP program to {}", route.name));
}

XdpProgram find_xdp_program(const PacketRoute& route) {
    bpf_xdp_query_opts query{};
    query.sz = sizeof query;
    if (bpf_xdp_query(static_cast<int>(route.interface), 0, &query) != 0) {
        return {};
    }
    XdpProgram found{
        .id = std::max({query.prog_id, query.drv_prog_id, query.hw_prog_id, query.skb_prog_id}),
        .name = "",
        .generic = query.attach_mode == XDP_ATTACHED_SKB};
    const FileDescriptor fd(found.id == 0 ? -1 : bpf_prog_get_fd_by_id(found.id));
    bpf_prog_info info{};
    std::uint32_t size = sizeof info;
    if (fd.valid() && bpf_obj_get_info_by_fd(fd.get(), &info, &size) == 0) {
        found.name = info.name;
    }
    return found;
}

} // namespace reprise::querier
