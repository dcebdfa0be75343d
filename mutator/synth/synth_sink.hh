#pragma once
// Where a synthetic trace goes: packets into a capture, or queries into the text or stream form.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/output/output_file.hh"
#include "mutator/output/pcap_writer.hh"
#include "mutator/synth/tcp_flow.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

/// Datagrams come in order of time, each behind a write_until() of its time; segments may be of any
/// later time and wait.
class SynthSink : public SegmentSink {
public:
    virtual void datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                          Bytes message) = 0;

    /// The next segments are of connection `number`, from 1.
    virtual void open(std::uint64_t /*number*/) {}

    /// Writes what waits, up to and including `time`.
    virtual void write_until(Nanoseconds time) = 0;

    /// Writes all that waits and closes; the file gets its name.
    virtual void finish() = 0;

    /// Packets or records, and bytes, written.
    [[nodiscard]] virtual std::uint64_t records() const = 0;
    [[nodiscard]] virtual std::uint64_t bytes() const = 0;
};

/// A capture with whole TCP connections: handshakes, acknowledgements, round trips.
class PacketSink : public SynthSink {
public:
    explicit PacketSink(const std::string& path) : writer_(path) {}

    void put(Nanoseconds time, const trace::TcpPacket& segment) override {
        waiting_.put(time, segment);
    }

    void datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                  Bytes message) override;
    void write_until(Nanoseconds time) override;
    void finish() override;

    [[nodiscard]] std::uint64_t records() const override { return writer_.packets(); }

    [[nodiscard]] std::uint64_t bytes() const override { return writer_.bytes(); }

private:
    PcapWriter writer_;
    PacketQueue waiting_;
    std::vector<std::uint8_t> packet_;
};

/// The queries themselves, and the closes of their connections.
class QuerySink : public SynthSink {
public:
    QuerySink(const std::string& path, std::unique_ptr<trace::QueryEncoder> encoder);

    void put(Nanoseconds time, const trace::TcpPacket& segment) override;
    void datagram(Nanoseconds time, const Endpoint& from, const Endpoint& to,
                  Bytes message) override;

    void open(std::uint64_t number) override { connection_ = number; }

    void write_until(Nanoseconds time) override;
    void finish() override;

    [[nodiscard]] std::uint64_t records() const override { return records_; }

    [[nodiscard]] std::uint64_t bytes() const override { return file_.bytes(); }

private:
    /// A query over TCP, or a close, that waits for its time.
    struct Waiting {
        Query query; ///< its message is in `message`
        std::uint64_t order = 0;
        std::vector<std::uint8_t> message;
    };

    static bool is_later(const Waiting& a, const Waiting& b);
    void write(Query query);

    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputFile file_;
    std::string out_;
    std::vector<Waiting> waiting_; ///< a heap, the earliest on top
    std::uint64_t order_ = 0;
    std::uint64_t connection_ = 0;
    std::uint64_t sequence_ = 0;
    std::uint64_t records_ = 0;
    std::uint64_t unflushed_ = 0;
};

} // namespace reprise::mutator
