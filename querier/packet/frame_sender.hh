#pragma once
#include "querier/packet/route.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

/// Sends by an AF_XDP socket, or by a packet socket with the reason in `why` where the kernel, user
/// or driver does not allow one. Throws SystemError where it allows neither.
std::unique_ptr<FrameSender> open_sender(const PacketRoute& route, std::string& why);

/// Sends by a packet socket that receives nothing. Throws SystemError.
std::unique_ptr<FrameSender> open_packet_sender(const PacketRoute& route);

} // namespace reprise::querier
