#pragma once
// What the transports and the replay owe each other.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/servers.hh" // IWYU pragma: export
#include "core/wire/result_file.hh"
#include "querier/sockets/poller.hh"
#include "querier/sockets/stamps.hh"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace reprise::querier {

/// What became of handing a query to a transport.
enum class SendResult : std::uint8_t {
    kDone,     ///< it is in flight
    kBusy,     ///< the kernel's buffers are full: again in a moment
    kNoRoom,   ///< no descriptor: again when an idle socket was closed
    kFailed,   ///< it will never be sent
    kOversize, ///< larger than the transport can carry
    kNoAddress ///< no source address for it on this host
};

/// Who a reply came to: socket or connection and local address, as one number. Part of the
/// Matcher's keys; 0 = nobody.
using Owner = std::uint64_t;

/// A DNS message that came back. The bytes may be changed and are lent for the call.
struct Reply {
    std::span<std::uint8_t> bytes; ///< the message, or its beginning where `size` is larger
    size_t size = 0;               ///< of the whole message
    Nanoseconds received = 0;      ///< CLOCK_MONOTONIC
};

/// A query left within the system call that began at `before` and ended at `after`
/// (CLOCK_MONOTONIC). Where the process lost its processor in that call, nobody knows when.
struct SendCall {
    Nanoseconds before = 0;
    Nanoseconds after = 0;

    [[nodiscard]] bool unsure() const { return after - before > 50 * kMicrosecond; }
};

/// Most messages of one system call, so that its beginning tells when each of them left.
inline constexpr size_t kMostInCall = 16;

/// Called by transports from within their own calls.
class TransportEvents {
public:
    TransportEvents() = default;
    TransportEvents(const TransportEvents&) = delete;
    TransportEvents& operator=(const TransportEvents&) = delete;
    virtual ~TransportEvents() = default;

    virtual void on_reply(Owner owner, const Reply& reply) = 0;

    /// UDP: the staged query was handed to the kernel.
    virtual void on_sent(std::uint32_t pending, const SendCall& call) = 0;

    /// UDP: the kernel did not take the staged query.
    virtual void on_refused(std::uint32_t pending, SendResult result) = 0;

    /// TCP: the query was handed to the kernel; its owner and wire_id are final.
    virtual void on_written(std::uint32_t pending) = 0;

    /// TCP: the query leaves its connection without an answer and will not be tried again.
    virtual void on_failed(std::uint32_t pending, Status status) = 0;
};

/// A way to send queries over UDP and to receive the answers; one for each source mode.
///
/// Queries are staged one by one and handed over together by flush(), which calls on_sent or
/// on_refused once for every staged query, those of one source in the order they were staged.
class UdpTransport {
public:
    UdpTransport() = default;
    UdpTransport(const UdpTransport&) = delete;
    UdpTransport& operator=(const UdpTransport&) = delete;
    virtual ~UdpTransport() = default;

    /// Most queries between two flushes.
    static constexpr size_t kMostStaged = 64;

    /// On kDone the query's owner and place are set; otherwise nothing has changed.
    virtual SendResult stage(std::uint32_t pending) = 0;
    virtual void flush() = 0;

    /// Opens what a query of this source will need.
    virtual void prepare(std::uint32_t /*source*/, std::uint8_t /*family*/) {}

    /// Goes the query's way as far as that sends nothing.
    virtual void rehearse(std::uint32_t /*pending*/) {}

    /// An event of one of its descriptors (EventKind::kUdp). False: there may be more to read.
    virtual bool receive(const EventTag& tag, const StampClock& stamps) = 0;

    /// A staged or sent query of this place ended.
    virtual void release(std::uint32_t place) = 0;

    /// Closes the least recently used socket no query waits on; false where there is none.
    virtual bool evict_idle() = 0;

    /// When it wants poll() at the latest (CLOCK_MONOTONIC); for one without descriptors to wait
    /// on.
    [[nodiscard]] virtual Nanoseconds next_wake(Nanoseconds /*now*/) const {
        return std::numeric_limits<Nanoseconds>::max();
    }

    /// Takes what came since the last call; cheap when nothing did. False: there may be more.
    virtual bool poll(const StampClock& /*stamps*/) { return true; }

    /// Counts what the kernel dropped and no answer has told of. At the end of the replay.
    virtual void count_drops() = 0;
};

} // namespace reprise::querier
