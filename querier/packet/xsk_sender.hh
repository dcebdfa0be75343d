#pragma once
// Sends by an AF_XDP socket in copy mode. The frames lie in memory shared with the kernel and are
// named to it by a ring, so a batch costs one system call and none of the work that sendmmsg does
// for each message; the kernel then goes the same way as for a packet socket (see
// docs/decisions/0006-fast-mode.md for what that buys).
//
// Who owns what: a chunk of the memory is free, staged, or the kernel's until it comes back in the
// ring of completions. The kernel reads the ring of frames only within our system call, so whatever
// it has not consumed after one can be rewritten.

#include "core/base/fd.hh"
#include "querier/packet/packet_sender.hh"
#include "querier/packet/route.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/if_xdp.h>
#include <span>
#include <vector>

namespace reprise::querier {

/// Memory of mmap. Owns it.
class Mapping {
public:
    Mapping() = default;

    /// Shared with `fd` at `offset`, or anonymous where fd is negative. Throws
    /// SystemError(attempt).
    Mapping(size_t size, int fd, std::uint64_t offset, const char* attempt);
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    ~Mapping();

    [[nodiscard]] std::uint8_t* at(size_t offset) const { return memory_ + offset; }

private:
    std::uint8_t* memory_ = nullptr;
    size_t size_ = 0;
};

class XskSender final : public FrameSender {
public:
    /// Whether a chunk holds the interface's largest frame.
    static bool carries(const PacketRoute& route);

    /// Throws SystemError where the kernel, user or driver does not allow it.
    explicit XskSender(const PacketRoute& route);

    std::span<std::uint8_t> room() override;
    void commit(size_t size) override;
    int send(size_t first) override;
    void clear() override;

    [[nodiscard]] const char* kind() const override { return "xdp_socket"; }

private:
    struct Staged {
        xdp_desc frame{};
        bool handed = false; ///< the chunk is the kernel's
    };

    void share_memory();
    void map_rings();
    void bind_to(const PacketRoute& route);
    void announce(size_t first);
    /// Frames that the kernel consumed in a call that ended with `error`.
    size_t consumed(int error);
    void reclaim();

    FileDescriptor socket_;
    Mapping frames_;
    Mapping ring_;
    Mapping completions_;
    std::uint32_t* produced_at_ = nullptr; ///< in the ring
    std::uint32_t* consumed_at_ = nullptr;
    xdp_desc* places_ = nullptr;
    std::uint32_t* completed_at_ = nullptr; ///< in the completions
    std::uint32_t* taken_at_ = nullptr;
    std::uint64_t* returned_ = nullptr;

    std::uint32_t produced_ = 0;
    std::uint32_t consumed_ = 0; ///< really; the kernel may publish it later
    std::uint32_t taken_ = 0;
    bool dropped_ = false; ///< the driver dropped the frame behind those the last send() told of
    std::array<Staged, kBatch> batch_;
    std::vector<std::uint64_t> free_; ///< chunks, the last used on top
};

} // namespace reprise::querier
