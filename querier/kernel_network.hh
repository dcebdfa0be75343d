#pragma once
// The network, and the way to the parent, as the kernel gives them.

#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/wire/frame.hh"
#include "core/wire/replay.pb.h"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/process.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <vector>

namespace reprise::querier {

class KernelNetwork final : public Network {
public:
    /// Readable: reported as an event of the parent (EventKind::kControl).
    void watch_parent(int fd) { poller_.add(fd, EPOLLIN, {.kind = EventKind::kControl}); }

    [[nodiscard]] const Clock& clock() const override { return system_clock(); }

    std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                         const CarrierParts& parts) override;

    OpenedSocket connect(const Endpoint& server, const std::optional<IpAddress>& source,
                         bool kernel_stamps) override {
        return open_tcp(poller_, clock(), server, source, kernel_stamps);
    }

    std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) override {
        return poller_.wait(now, wake);
    }

    [[nodiscard]] bool timer_fired() const override { return poller_.timer_fired(); }

    void sleep_until(Nanoseconds time) override;

private:
    Poller poller_;
};

/// The way to the parent over a socket pair.
class SocketLink final : public ControlLink {
public:
    explicit SocketLink(int fd);

    [[nodiscard]] int fd() const { return fd_.get(); }

    void send(const wire::Frame& frame) override;
    bool flush() override;
    void flush_finally(int limit_ms) override;
    Received receive() override;

    FrameReader::Result next(wire::Frame& frame) override { return reader_.next(frame); }

private:
    FileDescriptor fd_;
    FrameReader reader_;
    std::string out_;
    size_t written_ = 0;
    std::vector<std::uint8_t> buffer_;
    bool broken_ = false;
};

} // namespace reprise::querier
