#pragma once
#include "core/base/fd.hh"
#include "querier/packet/route.hh"

#include <cstddef>
#include <cstdint>
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

    FrameSender() = default;
    FrameSender(const FrameSender&) = delete;
    FrameSender& operator=(const FrameSender&) = delete;
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

} // namespace reprise::querier
