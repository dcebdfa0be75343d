#pragma once
// Hands whole frames to the driver: a packet socket that receives nothing and passes by the
// queueing discipline. Captures on this host do not see what it sends; captures at the other end
// do.

#include "core/fd.hh"
#include "querier/packet/route.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

class PacketSender {
public:
    static constexpr size_t kBatch = 64;

    /// Throws SystemError.
    explicit PacketSender(const PacketRoute& route);

    [[nodiscard]] std::uint32_t interface() const { return interface_; }

    [[nodiscard]] size_t staged() const { return staged_; }

    /// Room for the next frame, as large as the interface carries. Only while staged() < kBatch.
    std::span<std::uint8_t> room() { return {&frames_[staged_ * stride_], stride_}; }

    /// The frame in room() has this size and is to be sent.
    void commit(size_t size) { vectors_[staged_++].iov_len = size; }

    /// Sends the staged frames from number `first` on. Returns how many the driver took, at least
    /// one, or the negative errno of the first.
    int send(size_t first);

    /// Forgets what is staged.
    void clear() { staged_ = 0; }

    /// Whether the interface can carry packets now; where not, "no buffer" means never.
    [[nodiscard]] bool running() const;

private:
    FileDescriptor socket_;
    std::uint32_t interface_;
    std::string name_;
    size_t stride_;
    size_t staged_ = 0;
    std::vector<std::uint8_t> frames_;
    std::vector<iovec> vectors_;
    std::vector<mmsghdr> messages_;
};

} // namespace reprise::querier
