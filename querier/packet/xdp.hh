#pragma once
// An interface past the stack: frames are handed to the driver by an AF_XDP socket, replies are
// taken by an XDP program.

#include "core/base/bpf.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <span>
#include <string>
#include <vector>

namespace reprise::querier {

/// Hands whole frames to the driver, past the queueing discipline, by an AF_XDP socket in copy
/// mode. The frames lie in memory shared with the kernel and are named to it by a ring, so a batch
/// costs one system call and none of the work that sendmmsg does for each message (see
/// docs/decisions/0006-fast-mode.md for what that buys). Captures on this host do not see the
/// frames; captures at the other end do.
///
/// Who owns what: a chunk of the memory is free, staged, or the kernel's until it comes back in the
/// ring of completions. The kernel reads the ring of frames only within our system call, so
/// whatever it has not consumed after one can be rewritten.
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

/// Replies taken by an XDP program before the stack sees them, handed over in a BPF ring buffer.
/// The program is attached by a link that this process owns: whatever ends the process, the kernel
/// takes the program off the interface. Its ring buffer has a consumer of ours: it reads the
/// producer's position and publishes its own once a drain, where libbpf's does both for each
/// record.
class XdpReceiver {
public:
    /// Loads the program with room for `replies` between two drains; `whole`: none of them is cut.
    /// Throws SystemError where this kernel or user cannot.
    XdpReceiver(const Servers& servers, size_t replies, bool whole);

    /// Attaches it to an interface; "native" or "generic". Throws SystemError.
    std::string attach(const PacketRoute& route);

    /// The program, loaded.
    [[nodiscard]] int program() const { return program_; }

    /// Takes up to `most` records, oldest first. `take` gets the head of each as a const
    /// ReplyHead&, with the record lent for the call. Returns how many there were.
    template <typename Take> size_t drain(size_t most, Take take) {
        const std::uint64_t end = std::atomic_ref(*produced_).load(std::memory_order_acquire);
        size_t count = 0;
        std::uint64_t position = position_;
        while (position < end && count < most) {
            std::uint8_t* place = data_ + (position & mask_);
            const std::uint32_t head = std::atomic_ref(*reinterpret_cast<std::uint32_t*>(place))
                                           .load(std::memory_order_acquire);
            if ((head & BPF_RINGBUF_BUSY_BIT) != 0) {
                break; // another processor is still writing it
            }
            // Another processor wrote them: fetched when needed, each would cost a wait of 100 ns.
            prefetch(position + 3 * kRecord);
            if ((head & BPF_RINGBUF_DISCARD_BIT) == 0) {
                take(*reinterpret_cast<const ReplyHead*>(place + BPF_RINGBUF_HDR_SZ));
                ++count;
            }
            const std::uint32_t size = head & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
            position += (size + BPF_RINGBUF_HDR_SZ + 7U) & ~std::uint64_t{7};
        }
        if (position != position_) {
            position_ = position;
            std::atomic_ref(*consumed_).store(position, std::memory_order_release);
        }
        return count;
    }

    /// Replies dropped since the start because the ring was full.
    [[nodiscard]] std::uint64_t overflows() const {
        auto* const count = reinterpret_cast<std::uint64_t*>(written_.at(0));
        return std::atomic_ref(*count).load(std::memory_order_relaxed);
    }

private:
    static constexpr size_t kRecord = sizeof(PacketRecord) + BPF_RINGBUF_HDR_SZ;

    [[gnu::always_inline]] void prefetch(std::uint64_t position) const {
        __builtin_prefetch(data_ + (position & mask_));
        __builtin_prefetch(data_ + (position & mask_) + 64);
    }

    BpfObject object_;
    Mapping written_;  ///< by the program: a page with the count of overflows
    int program_ = -1; ///< in the object
    Mapping ours_;     ///< of the ring: a page
    Mapping theirs_;   ///< a page the kernel writes, and the data, twice in a row
    std::uint64_t* consumed_ = nullptr;
    std::uint64_t* produced_ = nullptr;
    std::uint8_t* data_ = nullptr;
    std::uint64_t mask_; ///< the data has a power of two of bytes
    std::uint64_t position_ = 0;
    std::vector<FileDescriptor> links_;
};

/// Throws Error, naming the program, where the interface has one already.
void refuse_foreign_program(const PacketRoute& route);

} // namespace reprise::querier
