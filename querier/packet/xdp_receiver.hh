#pragma once
// Replies taken by an XDP program before the stack sees them, handed over in a BPF ring buffer. The
// program is attached by a link that this process owns: whatever ends the process, the kernel takes
// the program off the interface.

#include "core/base/bpf.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <linux/bpf.h>
#include <string>
#include <vector>

namespace reprise::querier {

/// The program, and the consumer of its ring buffer: reads the producer's position and publishes
/// its own once a drain, where libbpf's does both for each record.
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

/// An XDP program on an interface.
struct XdpProgram {
    std::uint32_t id = 0;
    std::string name;
    bool generic = false; ///< attached behind the driver
};

/// The program on the interface; id 0 where there is none.
XdpProgram find_xdp_program(const PacketRoute& route);

} // namespace reprise::querier
