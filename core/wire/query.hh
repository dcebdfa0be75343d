#pragma once
#include "core/base/address.hh" // IWYU pragma: export
#include "core/base/bytes.hh"   // IWYU pragma: export
#include "core/base/clock.hh"   // IWYU pragma: export

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace reprise {

/// Where servers listen for DNS over UDP and TCP (RFC 1035).
inline constexpr std::uint16_t kDnsPort = 53;

/// How a query travels. The values stand in files and on the wire: only append.
enum class Transport : std::uint8_t {
    kUdp = 0,
    kTcp = 1,
    kTls = 2,
    kQuic = 3,
    kHttps = 4,
    kStatelessTcp = 5,
};

inline constexpr std::array kTransports{Transport::kUdp,   Transport::kTcp,
                                        Transport::kTls,   Transport::kQuic,
                                        Transport::kHttps, Transport::kStatelessTcp};

constexpr std::string_view transport_name(Transport transport) {
    constexpr std::array<std::string_view, kTransports.size()> kNames{
        "udp", "tcp", "tls", "quic", "https", "stateless-tcp"};
    return kNames.at(static_cast<size_t>(transport));
}

// The times that a trace may have: the years 1900 to 2149. So the difference of two of them, and
// one with a timeout added, fits into 64 bits. Readers see to it.
inline constexpr Nanoseconds kFirstTraceTime = -2'208'988'800 * kSecond;
inline constexpr Nanoseconds kEndOfTraceTime = 5'680'281'600 * kSecond; ///< the first beyond

constexpr bool is_trace_time(Nanoseconds time) {
    return time >= kFirstTraceTime && time < kEndOfTraceTime;
}

/// One query of a trace, from reader to sender; or a response of the trace; or no message, but the
/// close of a connection: `source` closed its TCP connection (FIN or RST) before the server did. A
/// close comes once a connection, behind all messages of `source` on it, and only where one of them
/// was a query.
struct Query {
    std::uint64_t sequence = 0;   ///< unique in the trace, from 0, counting every query read
    Nanoseconds time = 0;         ///< of the trace, since the epoch
    Nanoseconds due = 0;          ///< from the start of the replay; set by the controller
    Endpoint source;              ///< as in the trace
    Endpoint destination;         ///< as in the trace
    std::uint32_t source_id = 0;  ///< number of the source address, from 0 in order of appearance
    std::uint64_t connection = 0; ///< TCP connection in the trace, from 1; 0 = none known
    Transport transport = Transport::kUdp;
    std::uint16_t rtt_class = 0;  ///< of the source, for a delay line: ms; 0 = none
    std::uint16_t idle_class = 0; ///< of the source: s its connections stay open unused; 0 = none
    /// The DNS message as sent, without a length prefix, at least 12 bytes; empty for a close. It
    /// borrows: from the block, packet or batch that the query was read into.
    Bytes message;

    [[nodiscard]] bool is_close() const { return message.empty(); }

    /// By the QR bit, whatever the ports say.
    [[nodiscard]] bool is_response() const {
        return message.size() > 2 && (message[2] & 0x80U) != 0;
    }
};

/// Messages that wait until nothing comes any more that belongs before them. They leave in the
/// order of their times, those of one time in the order in which they came.
class WaitingMessages {
public:
    /// A copy, which leaves by `time` whatever its own is.
    void put(Nanoseconds time, const Query& query) {
        Message& message = waiting_.emplace(time, Message{.query = query, .bytes = {}})->second;
        message.bytes.assign(query.message.begin(), query.message.end());
        message.query.message = message.bytes;
        memory_ += sizeof(Message) + message.bytes.size();
    }

    /// Whether one has a time up to and including `until`.
    [[nodiscard]] bool due(Nanoseconds until) const {
        return !waiting_.empty() && waiting_.begin()->first <= until;
    }

    /// The first one, which there must be; good until the next call.
    const Query& take() {
        taken_ = waiting_.extract(waiting_.begin());
        memory_ -= sizeof(Message) + taken_.mapped().bytes.size();
        return taken_.mapped().query;
    }

    /// Bytes that they take, roughly.
    [[nodiscard]] size_t memory() const { return memory_; }

private:
    struct Message {
        Query query; ///< its message is in `bytes`
        std::vector<std::uint8_t> bytes;
    };

    std::multimap<Nanoseconds, Message> waiting_;
    std::multimap<Nanoseconds, Message>::node_type taken_;
    size_t memory_ = 0;
};

} // namespace reprise
