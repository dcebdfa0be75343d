#pragma once
// Synthesis of a trace.
//
// Each arrival (Arrivals) is a query of a client drawn by activity; with probability tcp_share it
// travels by TCP. A TCP arrival opens a connection (the SYN is at the arrival, the query follows a
// round trip later) or, while the newest connection still has queries to send, goes on that one, so
// the share stays exact and connections carry tcp_queries in the mean. One random stream feeds
// everything in order of arrival: the same options and seed give the same bytes on every machine.
// Memory does not grow with the trace: only TCP packets of the next round trips wait.

#include "core/base/random.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/synth_options.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::mutator {

// Where a synthetic trace goes: into a capture, with whole TCP connections (handshakes,
// acknowledgements, round trips), or into the text or stream form, which hold the queries and the
// closes of their connections.

/// Datagrams come in order of time, each behind a write_until() of its time; segments may be of any
/// later time and wait.
class SynthSink {
public:
    /// Throws UsageError where the file cannot be written.
    SynthSink(const std::string& path, trace::OutputForm form);

    void datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to, Bytes message);

    /// A segment of connection `number`, from 1.
    void segment(Nanoseconds time, std::uint64_t number, const trace::TcpPacket& segment);

    /// Writes what waits, up to and including `time`; equal times in the order they were given.
    void write_until(Nanoseconds time);

    /// Writes all that waits and closes; the file gets its name.
    void finish();

    /// Packets or records, and bytes, written.
    [[nodiscard]] std::uint64_t records() const { return records_; }

    [[nodiscard]] std::uint64_t bytes() const { return file_.bytes(); }

private:
    void encode(Query query);
    void wrote_one();

    bool capture_;
    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputFile file_;
    std::string out_;                  ///< not written yet
    WaitingMessages waiting_;          ///< over TCP, and closes; in a capture packets, as messages
    std::vector<std::uint8_t> packet_; ///< of a capture
    std::uint64_t sequence_ = 0;
    std::uint64_t records_ = 0;
};

class TcpFlow;

struct SynthCounts {
    std::uint64_t queries = 0;
    std::uint64_t tcp_queries = 0;
    std::uint64_t connections = 0;
    std::uint64_t ipv6_queries = 0;
    std::uint64_t junk_queries = 0;
    Nanoseconds length = 0; ///< of trace time, at the last arrival
};

/// Makes the trace query by query: call step() until it returns false, then finish().
class Synthesizer {
public:
    /// `tlds` as from load_tlds(), where needs_tlds(); the sink must outlive the synthesizer.
    Synthesizer(const SynthSettings& settings, std::vector<std::string> tlds, SynthSink& sink);
    ~Synthesizer();

    /// The next arrival; false where the trace has all it should.
    bool step();

    /// Ends the last connection and finishes the sink.
    void finish();

    [[nodiscard]] const SynthCounts& counts() const { return counts_; }

private:
    void make_message(std::uint32_t client);
    void send_udp(Nanoseconds time);
    void send_tcp(Nanoseconds time);
    TcpFlow& open_connection(Nanoseconds time);
    void close(Nanoseconds time);
    void close_idle(Nanoseconds time);
    Endpoint client_endpoint(std::uint32_t client);
    Endpoint free_endpoint(std::uint32_t client, Nanoseconds time);
    [[nodiscard]] const Endpoint& server_for(std::uint32_t client) const;

    SynthSettings settings_;
    Random random_;
    Clients clients_;
    QueryMaker queries_;
    SynthSink& sink_;
    std::unique_ptr<TcpFlow> flow_; ///< newest connection, while it has queries to send
    std::unordered_map<Endpoint, Nanoseconds> busy_; ///< until these connections end
    size_t swept_ = 0;                               ///< of busy_, after the last sweep
    std::uint32_t flow_client_ = 0;
    std::uint64_t flow_left_ = 0;
    Nanoseconds start_ = 0;
    Arrivals arrivals_;
    double offset_ = 0; ///< of the last arrival from the start, ns
    SynthCounts counts_;
    std::vector<std::uint8_t> message_;
};

} // namespace reprise::mutator
