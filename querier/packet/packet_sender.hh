#pragma once
#include "core/base/fd.hh"
#include "querier/packet/route.hh"
#include "querier/packet/sender.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <vector>

namespace reprise::querier {

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
