#pragma once
// What a carrier implements (Carrier), what it tells (CarrierEvents) and what it works with.

#include "core/wire/result_file.hh"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <sys/epoll.h>

namespace reprise::querier {

class Matcher;
class Network;
class PendingQueries;
struct OpenedSocket;
struct ReplayOptions;
struct Statistics;

enum class EventKind : std::uint8_t { kTimer, kControl, kCarrier };

/// Whose event: kind, the carrier's number, which of those that had the socket's place it is (the
/// last bits), so that an event for a closed socket is not taken for its successor's, and the place
/// in its carrier.
struct EventTag {
    EventKind kind = EventKind::kTimer;
    std::uint8_t carrier = 0;
    std::uint16_t generation = 0;
    std::uint32_t place = 0;

    [[nodiscard]] std::uint64_t pack() const { return std::bit_cast<std::uint64_t>(*this); }

    static EventTag unpack(std::uint64_t packed) { return std::bit_cast<EventTag>(packed); }
};

/// What became of handing a query to a carrier.
enum class SendResult : std::uint8_t {
    kStaged,       ///< it leaves with the next flush()
    kTaken,        ///< the carrier sends it as soon as it can
    kBusy,         ///< the kernel's buffers are full: again in a moment
    kNoRoom,       ///< no descriptor: again when an idle socket was closed
    kFailed,       ///< it will never be sent
    kNoConnection, ///< the same, for want of a connection
    kOversize,     ///< larger than the carrier can take
    kNoAddress     ///< no source address for it on this host
};

/// Who a reply came to: socket or connection and local address, as one number. Part of the
/// Matcher's keys; 0 = nobody.
using Owner = std::uint64_t;

/// What kind of thing an Owner stands for; its low 16 bits.
inline constexpr std::uint16_t kOwnerSocket = 1;     ///< one socket of a source (mode ports)
inline constexpr std::uint16_t kOwnerConnection = 2; ///< a TCP connection
inline constexpr std::uint16_t kOwnerAddress = 3;    ///< a local address (other modes)

/// A numbered socket or connection; numbers are never used again.
constexpr Owner owner_of(std::uint64_t number, std::uint16_t kind) {
    return (number << 16U) | kind;
}

/// A local address and port. Exact for IPv4; a 48-bit hash for IPv6, where two addresses with the
/// same hash would also need the same id and question to be confused.
inline Owner owner_of(const Endpoint& local) {
    if (local.address.is_v4()) {
        std::uint32_t address = 0;
        std::memcpy(&address, local.address.bytes.data(), sizeof address);
        return owner_of((std::uint64_t{address} << 16U) | local.port, kOwnerAddress);
    }
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, local.address.bytes.data(), sizeof high);
    std::memcpy(&low, local.address.bytes.data() + sizeof high, sizeof low);
    std::uint64_t hash = (high ^ 0x9e3779b97f4a7c15U) * 0xbf58476d1ce4e5b9U;
    hash = (hash ^ (hash >> 29U) ^ low ^ local.port) * 0x94d049bb133111ebU;
    return owner_of(hash ^ (hash >> 32U), kOwnerAddress);
}

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

/// What all carriers take of this process together.
class Resources {
public:
    /// Descriptors for files, timers and the parent.
    static constexpr size_t kReserve = 64;

    /// `descriptors`: the process's limit.
    explicit Resources(size_t descriptors)
        : descriptors_(descriptors > kReserve ? descriptors - kReserve : 1) {}

    /// For one socket; false when no descriptor is left.
    bool take_descriptor() {
        if (descriptors_ == 0) {
            return false;
        }
        --descriptors_;
        return true;
    }

    void give_back_descriptor() { ++descriptors_; }

    /// Connections that are not yet ready for queries: their next step should not wait.
    size_t opening = 0;
    /// Bytes of queries that the kernel has not taken; they outlive queries that time out.
    size_t owed = 0;
    /// Most bytes of messages kept for queries that wait for an answer (TCP, TLS, --answers,
    /// hedging), with what is owed.
    size_t most_kept = 128UL << 20U;

    /// Idle connections are to be closed for what they owe.
    [[nodiscard]] bool owes_too_much() const { return owed > most_kept / 2; }

private:
    size_t descriptors_; ///< that may still be opened
};

/// The kernel stamps packets with the realtime clock; records use CLOCK_MONOTONIC. One pair of
/// readings per batch converts. A stepped realtime clock (set by hand, by a coarse time daemon, by
/// a resumed virtual machine) shows as a jump of their difference.
class StampClock {
public:
    /// A new batch with this pair. More than drift between two batches is a step.
    void sample(const ClockPair& pair) {
        const Nanoseconds jump = std::abs(pair.offset() - pair_.offset());
        const Nanoseconds drift = (pair.monotonic - pair_.monotonic) / kDriftDivisor;
        if (sampled_ && jump > kStep + drift) {
            ++steps_;
            unsure_until_ = pair.monotonic + kUnsure;
        }
        stepped_ = pair.monotonic < unsure_until_;
        sampled_ = true;
        pair_ = pair;
    }

    /// A stamp of this batch as CLOCK_MONOTONIC. Soon after a step nobody knows which clock a stamp
    /// is of: the result is then the batch's own time.
    [[nodiscard]] Nanoseconds convert(Nanoseconds stamp) const {
        return stepped_ || stamp == 0 ? pair_.monotonic : pair_.to_monotonic(stamp);
    }

    /// The realtime of a CLOCK_MONOTONIC instant.
    [[nodiscard]] Nanoseconds to_realtime(Nanoseconds monotonic) const {
        return monotonic + pair_.offset();
    }

    /// This batch saw a step, or comes so soon after one that its stamps may be older.
    [[nodiscard]] bool stepped() const { return stepped_; }

    [[nodiscard]] std::uint64_t steps() const { return steps_; }

private:
    static constexpr Nanoseconds kStep = 500 * kMicrosecond;
    /// The kernel slews by at most 500 ppm, twice that under adjtimex's tick: 1/1000 of the time
    /// between batches.
    static constexpr Nanoseconds kDriftDivisor = 1000;
    /// Packets stamped before a step may wait so long in a socket until they are read.
    static constexpr Nanoseconds kUnsure = 100 * kMillisecond;

    ClockPair pair_;
    bool sampled_ = false;
    bool stepped_ = false;
    Nanoseconds unsure_until_ = 0;
    std::uint64_t steps_ = 0;
};

/// Called by carriers from within their own calls.
class CarrierEvents {
public:
    virtual ~CarrierEvents() = default;

    virtual void on_reply(Owner owner, const Reply& reply) = 0;

    /// The query was handed to the kernel; its owner and wire_id are final. Once more where the
    /// carrier had to send it again.
    virtual void on_sent(std::uint32_t pending, const SendCall& call) = 0;

    /// The kernel did not take the staged query.
    virtual void on_refused(std::uint32_t pending, SendResult result) = 0;

    /// The carrier has forgotten the query, which has no answer and will not be tried again.
    virtual void on_failed(std::uint32_t pending, Status status) = 0;
};

/// A way to send queries and to receive the answers. Queries are named by their place among the
/// PendingQueries. A carrier implements what it needs; what it leaves out does nothing.
class Carrier {
public:
    virtual ~Carrier() = default;

    /// Most queries between two flushes.
    static constexpr size_t kMostStaged = 64;

    /// Opens what the query, which comes next, will need. A close, once the trace has come to it:
    /// closes what stands for the trace's connection.
    virtual void prepare(const Query& /*query*/) {}

    /// Goes the query's way as far as that sends nothing.
    virtual void rehearse(std::uint32_t /*pending*/) {}

    /// On kStaged and kTaken the carrier has the query until release() or on_failed(). Of a taken
    /// query on_failed() may come before this returns, so it must not be touched afterward. On
    /// everything else the query has not changed. A carrier that needs the message for longer than
    /// until the next flush() has it kept (PendingQueries::keep).
    virtual SendResult submit(std::uint32_t pending) = 0;

    /// Hands over what is staged: on_sent or on_refused once for every query, those of one source
    /// in the order they were staged.
    virtual void flush() {}

    /// An event of one of its descriptors, which it registers under its number. False: there may
    /// be more to read.
    virtual bool handle(const EventTag& /*tag*/, std::uint32_t /*events*/) { return true; }

    /// Takes what came since the last call and no event tells of; cheap when nothing did. False:
    /// there may be more.
    virtual bool poll() { return true; }

    /// The query has ended or was refused.
    virtual void release(std::uint32_t /*pending*/) {}

    /// The query's time is up. True where all queries of its connection, and so this one, have
    /// failed with it (on_failed).
    virtual bool expire(std::uint32_t /*pending*/, Nanoseconds /*now*/) { return false; }

    /// Closes what is done with or was idle for too long; bounded.
    virtual void tidy(Nanoseconds /*now*/) {}

    /// Closes the least recently used socket no query waits on; false where there is none.
    virtual bool evict() { return false; }

    /// When poll() or tidy() has something to do at the latest (CLOCK_MONOTONIC).
    [[nodiscard]] virtual Nanoseconds next_wake(Nanoseconds /*now*/) const {
        return std::numeric_limits<Nanoseconds>::max();
    }

    /// Counts what the kernel dropped of what is open. Once, at the end of the replay.
    virtual void count_drops() {}
};

/// Which carrier is wanted.
struct CarrierWish {
    const ReplayOptions& options;
    Servers servers;         ///< for UDP: the server under test, or a peer
    std::uint8_t number = 0; ///< of this carrier among the replay's, for its events
};

/// What carriers and queries in flight work with; all must outlive them.
struct ReplayParts {
    Network& network;
    Resources& resources;
    PendingQueries& queries;
    Matcher& matcher;
    const StampClock& stamps;
    Statistics& statistics;
};

/// The same for carriers, and whom they tell.
struct CarrierParts : ReplayParts {
    CarrierEvents& events;
};

/// What a querier sees of the world besides its parent: what time it is, ways to send queries, and
/// events to wait for. KernelNetwork is the real one; scenarios have their own, in which time
/// passes as fast as the querier can follow.
class Network {
public:
    virtual ~Network() = default;

    [[nodiscard]] virtual const Clock& clock() const = 0;

    /// The carrier of UDP in the source mode. Throws Error where it cannot be opened.
    virtual std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                                 const CarrierParts& parts) = 0;

    /// Begins to connect, from `source` or, where that is none, from the host's own address.
    virtual OpenedSocket connect(const Endpoint& server, const IpAddress& source,
                                 bool kernel_stamps) = 0;

    /// Reports the events of a descriptor (see epoll_ctl) under `tag`; called again: those that
    /// still stand once more. Throws SystemError.
    virtual void watch(int fd, std::uint32_t events, EventTag tag) = 0;

    /// With so many from one wait() there may be more.
    static constexpr size_t kMostEvents = 256;

    /// Sleeps until an event or CLOCK_MONOTONIC `wake`; at or before `now` = only looks. The events
    /// are good until the next call.
    virtual std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) = 0;

    /// Whether time ended the last wait.
    [[nodiscard]] virtual bool timer_fired() const = 0;

    /// Sleeps whatever arrives.
    virtual void sleep_until(Nanoseconds time) = 0;
};

} // namespace reprise::querier
