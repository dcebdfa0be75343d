#pragma once
// Packets of a minimal TCP connection that carries DNS queries, as seen in front of the server.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "mutator/synth/synth_sink.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

/// One connection: handshake, queries with the server's acknowledgements, and the client's orderly
/// close. The server's part comes 20 us after what it answers; the client's after a round trip of 1
/// to 150 ms (drawn, log-uniform).
class TcpFlow {
public:
    /// Begins connection `number` of the sink, with the SYN at `time`.
    TcpFlow(Nanoseconds time, std::uint64_t number, const Endpoint& client, const Endpoint& server,
            Random& random, SynthSink& sink);

    /// Puts a query, at `time` or as soon as the connection stands.
    void send(Nanoseconds time, Bytes message);

    /// Writes the close, at `time` or after the last query. Returns the time of the last
    /// segment.
    Nanoseconds close(Nanoseconds time);

    [[nodiscard]] const Endpoint& client() const { return tcp_.ends[kClient]; }

    /// When the last query was or will be sent.
    [[nodiscard]] Nanoseconds last_sent() const { return last_; }

private:
    static constexpr size_t kClient = 0;
    static constexpr size_t kServer = 1;

    void put(Nanoseconds time, size_t from, unsigned flags, Bytes payload = {});

    SynthSink* sink_;
    std::uint64_t number_;
    Nanoseconds round_trip_;
    Nanoseconds last_ = 0;
    trace::TcpEnds tcp_;
    std::vector<std::uint8_t> payload_;
};

} // namespace reprise::mutator
