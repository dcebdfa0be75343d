#pragma once
// Hands whole frames to the driver, past the queueing discipline, by an AF_XDP socket in copy mode.
// The frames lie in memory shared with the kernel and are named to it by a ring, so a batch costs
// one system call and none of the work that sendmmsg does for each message (see
// docs/decisions/0006-fast-mode.md for what that buys). Captures on this host do not see the
// frames; captures at the other end do.
//
// Who owns what: a chunk of the memory is free, staged, or the kernel's until it comes back in the
// ring of completions. The kernel reads the ring of frames only within our system call, so whatever
// it has not consumed after one can be rewritten.

#include "core/base/fd.hh"
#include "querier/packet/route.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/if_xdp.h>
#include <span>
#include <vector>

namespace reprise::querier {

class FrameSender {
public:
    /// Most frames between two calls of clear().
    static constexpr size_t kBatch = 64;

    /// Throws SystemError where the kernel, user or driver does not allow it.
    explicit FrameSender(const PacketRoute& route);

    [[nodiscard]] size_t staged() const { return staged_; }

    /// Room for the next frame, of kMostFrame bytes; empty where there is none before clear() or
    /// before the driver gives some back.
    std::span<std::uint8_t> room();

    /// The frame in room() has this size and is to be sent.
    void commit(size_t size);

    /// Sends the staged frames from number `first` on, where those before are settled. Returns how
    /// many the driver took, at least one, or the negative errno of the first.
    int send(size_t first);

    /// Forgets what is staged.
    void clear();

private:
    struct Staged {
        xdp_desc frame{};
        bool handed = false; ///< the chunk is the kernel's
    };

    void share_memory();
    void map_rings();
    void bind_to(const PacketRoute& route);
    void announce(size_t first);
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
    size_t staged_ = 0;
    std::array<Staged, kBatch> batch_;
    std::vector<std::uint64_t> free_; ///< chunks, the last used on top
};

} // namespace reprise::querier
