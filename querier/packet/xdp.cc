#include "querier/packet/xdp.hh"

#include "core/base/address.hh"
#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/log.hh"
#include "packet_receive_bpf.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bit>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <limits>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace reprise::querier {
namespace {

/// Enough for what is staged and for all that a driver's ring holds at a time.
constexpr std::uint32_t kChunks = 2048;
/// Frames of a call. They take no longer than `kMostInCall` messages of a UDP socket, so the
/// beginning of the call tells as well when each left.
constexpr size_t kMostFramesInCall = 32;
/// Of frames: what is staged now, and what a batch before left behind.
constexpr std::uint32_t kPlaces = 4 * FrameSender::kBatch;
/// The kernel asks for one of frames to receive, although there are none.
constexpr std::uint32_t kFillPlaces = 2;
constexpr int kSendBuffer = 8 << 20;
/// The kernel takes a moment to forget the socket of a querier that ended.
constexpr Nanoseconds kBindPatience = kSecond;
/// XDP_MAX_TX_SKB_BUDGET of linux/if_xdp.h, from Linux 6.17: frames a system call may send. 32
/// before, which costs a second call a batch.
constexpr int kBudgetOption = 9;
/// A place that the kernel passes over: it lies in no chunk.
constexpr xdp_desc kNothing{
    .addr = std::numeric_limits<std::uint64_t>::max() / 2, .len = 1, .options = 0};

template <typename Value>
void set(const FileDescriptor& socket, int option, const Value& value, const char* attempt) {
    check(setsockopt(socket.get(), SOL_XDP, option, &value, sizeof value), attempt);
}

template <typename Value> Value* place(const Mapping& mapping, size_t offset) {
    return reinterpret_cast<Value*>(mapping.at(offset));
}

std::uint32_t load(std::uint32_t* at) {
    return std::atomic_ref(*at).load(std::memory_order_acquire);
}

void store(std::uint32_t* at, std::uint32_t value) {
    std::atomic_ref(*at).store(value, std::memory_order_release);
}

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

// Sending

FrameSender::FrameSender(const PacketRoute& route)
    : socket_(check(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), "open an XDP socket")) {
    frames_ = Mapping(kMostFrame * kChunks, -1, 0, "make room for frames");
    xdp_umem_reg memory{};
    memory.addr = reinterpret_cast<std::uint64_t>(frames_.at(0));
    memory.len = kMostFrame * kChunks;
    memory.chunk_size = kMostFrame;
    set(socket_, XDP_UMEM_REG, memory, "share memory with an XDP socket");
    free_.reserve(kChunks);
    for (std::uint64_t chunk = kChunks; chunk > 0; --chunk) {
        free_.push_back((chunk - 1) * kMostFrame);
    }

    set(socket_, XDP_UMEM_FILL_RING, kFillPlaces, "make an XDP socket's rings");
    set(socket_, XDP_UMEM_COMPLETION_RING, kChunks, "make an XDP socket's rings");
    set(socket_, XDP_TX_RING, kPlaces, "make an XDP socket's rings");
    xdp_mmap_offsets offsets{};
    socklen_t size = sizeof offsets;
    check(getsockopt(socket_.get(), SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &size),
          "find the rings of an XDP socket");
    ring_ = Mapping(offsets.tx.desc + kPlaces * sizeof(xdp_desc), socket_.get(), XDP_PGOFF_TX_RING,
                    "map an XDP socket's rings");
    produced_at_ = place<std::uint32_t>(ring_, offsets.tx.producer);
    consumed_at_ = place<std::uint32_t>(ring_, offsets.tx.consumer);
    places_ = place<xdp_desc>(ring_, offsets.tx.desc);
    completions_ = Mapping(offsets.cr.desc + kChunks * sizeof(std::uint64_t), socket_.get(),
                           XDP_UMEM_PGOFF_COMPLETION_RING, "map an XDP socket's rings");
    completed_at_ = place<std::uint32_t>(completions_, offsets.cr.producer);
    taken_at_ = place<std::uint32_t>(completions_, offsets.cr.consumer);
    returned_ = place<std::uint64_t>(completions_, offsets.cr.desc);

    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer);
    const int budget = kBatch;
    setsockopt(socket_.get(), SOL_XDP, kBudgetOption, &budget, sizeof budget);
    bind_to(route);
}

std::span<std::uint8_t> FrameSender::room() {
    if (free_.empty()) {
        reclaim();
    }
    if (free_.empty() || staged_ == kBatch) {
        return {};
    }
    return {frames_.at(free_.back()), kMostFrame};
}

void FrameSender::commit(size_t size) {
    batch_[staged_++] = {
        .frame = {.addr = free_.back(), .len = static_cast<std::uint32_t>(size), .options = 0},
        .handed = false};
    free_.pop_back();
}

int FrameSender::send(size_t first) {
    if (std::exchange(dropped_, false)) {
        return -ENOBUFS;
    }
    announce(first);
    const auto result = ::sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0);
    const int error = result < 0 ? errno : 0;
    const size_t count = std::min(consumed(error), staged_ - first);
    for (size_t i = first; i < first + count; ++i) {
        batch_[i].handed = true;
    }
    reclaim();
    // EBUSY: the driver dropped the last of them. EAGAIN: the call had sent enough, or nothing
    // goes.
    dropped_ = error == EBUSY && count > 1;
    const size_t sent = error == EBUSY ? count - 1 : count;
    if (sent > 0) {
        return static_cast<int>(sent);
    }
    return error == EBUSY ? -ENOBUFS : error == 0 ? -EIO : -error;
}

void FrameSender::clear() {
    for (size_t i = staged_; i > 0; --i) {
        if (!batch_[i - 1].handed) {
            free_.push_back(batch_[i - 1].frame.addr);
        }
    }
    staged_ = 0;
    dropped_ = false;
}

void FrameSender::bind_to(const PacketRoute& route) {
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags = XDP_COPY;
    address.sxdp_ifindex = route.interface;
    const Nanoseconds limit = SteadyClock::now() + kBindPatience;
    while (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
        if (errno != EBUSY || SteadyClock::now() > limit) {
            throw SystemError(fmt::format("bind an XDP socket to {}", route.name));
        }
        const timespec wait{.tv_sec = 0, .tv_nsec = kMillisecond};
        nanosleep(&wait, nullptr);
    }
}

/// Writes the frames behind what the kernel consumed, over what earlier calls left there.
void FrameSender::announce(size_t first) {
    std::uint32_t at = consumed_;
    const size_t end = std::min(staged_, first + kMostFramesInCall);
    for (size_t i = first; i < end; ++i) {
        places_[at++ % kPlaces] = batch_[i].frame;
    }
    for (std::uint32_t rest = at; static_cast<std::int32_t>(produced_ - rest) > 0; ++rest) {
        places_[rest % kPlaces] = kNothing;
    }
    if (static_cast<std::int32_t>(at - produced_) > 0) {
        produced_ = at;
        store(produced_at_, produced_);
    }
}

/// Frames that the kernel consumed in a call that ended with `error`.
size_t FrameSender::consumed(int error) {
    const auto published = static_cast<std::int32_t>(load(consumed_at_) - consumed_);
    auto count = static_cast<std::uint32_t>(std::max(published, 0));
    if (error == EBUSY && count == 0) {
        count = 1; // dropped alone, which the kernel tells with the next frame
    }
    consumed_ += count;
    return count;
}

void FrameSender::reclaim() {
    const std::uint32_t end = load(completed_at_);
    if (taken_ == end) {
        return;
    }
    while (taken_ != end) {
        free_.push_back(returned_[taken_++ % kChunks]);
    }
    store(taken_at_, taken_);
}

// Receiving

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

void refuse_foreign_program(const PacketRoute& route) {
    bpf_xdp_query_opts query{};
    query.sz = sizeof query;
    const int error = bpf_xdp_query(static_cast<int>(route.interface), 0, &query);
    const auto id =
        std::max({query.prog_id, query.drv_prog_id, query.hw_prog_id, query.skb_prog_id});
    if (error != 0 || id == 0) {
        return;
    }
    const FileDescriptor fd(bpf_prog_get_fd_by_id(id));
    bpf_prog_info info{};
    std::uint32_t size = sizeof info;
    bpf_obj_get_info_by_fd(fd.get(), &info, &size); // where it fails there is no name
    throw Error(fmt::format("interface {0} has a foreign XDP program, {1} (id {2}), "
                            "which may take or delay replies; ip link set dev {0} {3} off",
                            route.name, log_value(info.name), id,
                            query.attach_mode == XDP_ATTACHED_SKB ? "xdpgeneric" : "xdp"));
}

} // namespace reprise::querier
