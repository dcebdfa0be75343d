#pragma once
#include "core/base/fd.hh"
#include "core/base/mapping.hh"
#include "querier/packet/route.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/if_xdp.h>
#include <memory>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

// Hands whole frames to the driver, past the queueing discipline. Captures on this host do not see
// them; captures at the other end do.

class FrameSender {
public:
    /// Most frames between two calls of clear().
    static constexpr size_t kBatch = 64;

    virtual ~FrameSender() = default;

    [[nodiscard]] size_t staged() const { return staged_; }

    /// Room for the next frame, as large as the interface carries; empty where there is none before
    /// clear() or before the driver gives some back.
    virtual std::span<std::uint8_t> room() = 0;

    /// The frame in room() has this size and is to be sent.
    virtual void commit(size_t size) = 0;

    /// Sends the staged frames from number `first` on, where those before are settled. Returns how
    /// many the driver took, at least one, or the negative errno of the first.
    virtual int send(size_t first) = 0;

    /// Forgets what is staged.
    virtual void clear() = 0;

    /// For the log.
    [[nodiscard]] virtual const char* kind() const = 0;

protected:
    size_t staged_ = 0;
};

/// An XskSender, or a PacketSender with the reason in `why` where the kernel, user or driver does
/// not allow one. Throws SystemError where it allows neither.
std::unique_ptr<FrameSender> open_sender(const PacketRoute& route, std::string& why);

/// Sends by a packet socket that receives nothing.
class PacketSender final : public FrameSender {
public:
    /// Throws SystemError.
    explicit PacketSender(const PacketRoute& route);

    std::span<std::uint8_t> room() override;

    void commit(size_t size) override { vectors_[staged_++].iov_len = size; }

    int send(size_t first) override;

    void clear() override { staged_ = 0; }

    [[nodiscard]] const char* kind() const override { return "packet_socket"; }

private:
    FileDescriptor socket_;
    size_t stride_;
    std::vector<std::uint8_t> frames_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

// Sends by an AF_XDP socket in copy mode. The frames lie in memory shared with the kernel and are
// named to it by a ring, so a batch costs one system call and none of the work that sendmmsg does
// for each message; the kernel then goes the same way as for a packet socket (see
// docs/decisions/0006-fast-mode.md for what that buys).
//
// Who owns what: a chunk of the memory is free, staged, or the kernel's until it comes back in the
// ring of completions. The kernel reads the ring of frames only within our system call, so whatever
// it has not consumed after one can be rewritten.

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
