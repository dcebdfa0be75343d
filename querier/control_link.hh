#pragma once
// The way to the parent, the host's distributor.

#include "core/base/fd.hh"
#include "core/wire/frame.hh"
#include "core/wire/replay.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier {

/// Never blocks: what cannot be sent at once waits in a buffer.
class ControlLink {
public:
    ControlLink() = default;
    ControlLink(const ControlLink&) = delete;
    ControlLink& operator=(const ControlLink&) = delete;
    virtual ~ControlLink() = default;

    virtual void send(const wire::Frame& frame) = 0;

    /// Tries to write what waits; true when nothing waits any more.
    virtual bool flush() = 0;

    /// Writes what waits, for at most `limit_ms` milliseconds.
    virtual void flush_finally(int limit_ms) = 0;

    enum class Received : std::uint8_t { kNothing, kData, kGone };

    /// Reads what is there, a bounded amount. kGone: the parent closed its end.
    virtual Received receive() = 0;

    /// A frame of what was received.
    virtual FrameReader::Result next(wire::Frame& frame) = 0;
};

/// Over a socket pair.
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
