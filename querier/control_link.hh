#pragma once
// The socket pair to the distributor. Never blocks: what the kernel does not take waits in a
// buffer.

#include "core/fd.hh"
#include "core/frame.hh"
#include "core/replay.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier {

class ControlLink {
public:
    explicit ControlLink(int fd);

    [[nodiscard]] int fd() const { return fd_.get(); }

    void send(const wire::Frame& frame);

    /// Tries to write what waits; true when nothing waits any more.
    bool flush();

    /// Writes what waits, for at most `limit_ms` milliseconds.
    void flush_finally(int limit_ms);

    enum class Received : std::uint8_t { kNothing, kData, kGone };

    /// Reads what is there, a bounded amount. kGone: the parent closed its end.
    Received receive();

    FrameReader::Result next(wire::Frame& frame) { return reader_.next(frame); }

private:
    FileDescriptor fd_;
    FrameReader reader_;
    std::string out_;
    size_t written_ = 0;
    std::vector<std::uint8_t> buffer_;
    bool broken_ = false;
};

} // namespace reprise::querier
