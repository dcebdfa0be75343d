#pragma once
// Where a synthetic trace goes: into a capture, with whole TCP connections (handshakes,
// acknowledgements, round trips), or into the text or stream form, which hold the queries and the
// closes of their connections.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

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
    struct Waiting {
        Query query; ///< over TCP, or a close; in a capture its time alone counts
        std::uint64_t order = 0;
        std::vector<std::uint8_t> bytes; ///< the query's message; in a capture the packet
    };

    static bool is_later(const Waiting& a, const Waiting& b);
    void write(const Waiting& waiting);
    void wrote_one();

    bool capture_;
    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputFile file_;
    std::string out_;              ///< not written yet
    std::vector<Waiting> waiting_; ///< a heap, the earliest on top
    std::uint64_t order_ = 0;
    std::uint64_t sequence_ = 0;
    std::uint64_t records_ = 0;
};

} // namespace reprise::mutator
