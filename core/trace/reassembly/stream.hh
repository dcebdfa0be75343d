#pragma once
// One direction of a TCP connection: segments in, DNS messages out.
//
// Sequence numbers are compared by their signed difference (RFC 9293 section 3.4), so wrapping
// needs no care. A segment ahead of the expected one is held until the hole before it is filled. A
// hole is given up (by the owner, skip_hole()) when the peer has acknowledged beyond it, so that
// the capture and not the network lost it; when it is old, when too much is held, or when the
// connection ends. After a hole the stream goes on at the next message if its place is known from
// the length prefix before the hole; else, as at the beginning of a stream captured from its
// middle, at the next place that looks like a message.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::trace {

class Stream {
public:
    /// A whole message inside the stream's buffer: good until begin() is called next.
    struct Found {
        size_t offset = 0;
        size_t size = 0;
        Nanoseconds time = 0; ///< of the packet with the last byte missing
    };

    struct Output {
        std::vector<Found> found; ///< each call appends
        Tally* tally;
    };

    /// Forgets messages already found. Call before any of the calls below for a new packet.
    void begin();

    /// The sequence number of the first byte, from a SYN.
    void start(std::uint32_t sequence);

    /// Takes a segment's payload and finds the messages that it completes.
    void add(std::uint32_t sequence, Bytes data, Nanoseconds time, Output& out);

    /// Gives up the first hole. Needs waiting().
    void skip_hole(Output& out);

    /// Gives up every hole.
    void skip_holes(Output& out);

    /// Gives up every hole and drops what is left over, counted; for a connection that ends.
    void finish(Output& out);

    [[nodiscard]] Bytes bytes(const Found& found) const {
        return Bytes(buffer_).subspan(found.offset, found.size);
    }

    /// Whether segments are held behind a hole.
    [[nodiscard]] bool waiting() const { return !held_.empty(); }

    /// Whether there is a hole and `acknowledgement` covers all of it.
    [[nodiscard]] bool acknowledged_beyond_hole(std::uint32_t acknowledgement) const;

    /// Capture time of the first held segment. Needs waiting().
    [[nodiscard]] Nanoseconds waiting_since() const;

    [[nodiscard]] bool started() const { return started_; }

    /// Whether every byte before `sequence` was seen or given up.
    [[nodiscard]] bool reached(std::uint32_t sequence) const {
        return started_ && ahead(sequence) <= 0;
    }

    /// Sequence number of the first byte seen or announced by a SYN.
    [[nodiscard]] std::uint32_t first_sequence() const { return first_; }

    /// Too far from what is expected to belong to this stream: the ports were used again and the
    /// SYN is not in the capture.
    [[nodiscard]] bool foreign(std::uint32_t sequence) const;

    /// Bytes of memory beyond the object itself.
    [[nodiscard]] size_t memory() const { return buffer_.capacity() + held_bytes_; }

private:
    struct Held {
        std::uint32_t sequence = 0;
        Nanoseconds time = 0;
        std::vector<std::uint8_t> data;
    };

    [[nodiscard]] std::int32_t ahead(std::uint32_t sequence) const {
        return static_cast<std::int32_t>(sequence - next_);
    }

    void hold(std::uint32_t sequence, Bytes data, Nanoseconds time, Output& out);
    void release(Nanoseconds now, Output& out);
    void append(Bytes data, Nanoseconds time, Output& out);
    void scan(Nanoseconds time, Output& out);
    bool search(Output& out);
    void jump_over(std::uint32_t lost, Output& out);
    [[nodiscard]] size_t missing() const;

    [[nodiscard]] Bytes pending() const { return Bytes(buffer_).subspan(used_); }

    std::vector<std::uint8_t> buffer_; ///< contiguous bytes
    size_t used_ = 0;                  ///< bytes of buffer_ already taken as messages
    size_t discard_ = 0;               ///< coming bytes that belong to a message with a hole
    std::vector<Held> held_;           ///< by sequence number
    size_t held_bytes_ = 0;
    std::uint32_t next_ = 0; ///< expected sequence number
    std::uint32_t first_ = 0;
    bool started_ = false;
    bool synchronized_ = false; ///< next_ less pending() is a message boundary
};

} // namespace reprise::trace
