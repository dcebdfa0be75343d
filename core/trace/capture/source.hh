#pragma once
// Where packets come from, chosen by what the file holds (never by its name): pcap and pcapng out
// of a decompressed stream; ERF through libtrace, from plain files.
//
// libtrace (Debian's 3.0.22) reads pcap too, but slower, and without pcapng, zst, lz4 and the link
// types SLL2, NULL, LOOP, MPLS and 228/229. Of a truncated gz or bz2 file it loses the packets
// before the cut, and over headers that tell of a frame of 64 KiB it ends the program.

#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {

/// A trace that is being read, whatever its form: packets of a capture, messages of any other, in
/// the order of the file. Opening throws TraceError; later trouble ends the reading and stands in
/// trouble().
class TraceSource {
public:
    virtual ~TraceSource() = default;
    TraceSource(const TraceSource&) = delete;
    TraceSource& operator=(const TraceSource&) = delete;

    /// Whether it yields packets.
    [[nodiscard]] bool capture() const { return capture_; }

    /// The next packet or message; false at the end and at trouble. Its bytes are good until the
    /// next call. Every member of `query` that a trace has is set.
    virtual bool next(Packet& packet, Query& query) = 0;

    /// Whether next() will not wait for whoever writes the trace; false where that is not known.
    [[nodiscard]] virtual bool ready() const { return false; }

    /// Packets, rows or records read so far.
    [[nodiscard]] std::uint64_t packets() const { return items_; }

    /// Of a form that is no capture.
    [[nodiscard]] virtual Counters counters() const { return counters_; }

    /// One line naming the place and how much was good before it; empty where nothing went wrong.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    /// Share of the file's bytes read so far, 0 to 1, as a rough measure of progress; 0 where the
    /// size is unknown (a pipe).
    [[nodiscard]] virtual double share_read() const { return stream_->share_read(); }

    /// For example "pcapng, gzip" or "text".
    [[nodiscard]] virtual std::string description() const {
        const std::string& compression = stream_->compression();
        return std::string(form_) + (compression.empty() ? "" : ", ") + compression;
    }

protected:
    TraceSource(std::string_view form, std::unique_ptr<ByteStream> stream, bool capture = false)
        : form_(form), stream_(std::move(stream)), capture_(capture) {}

    std::string_view form_;
    std::unique_ptr<ByteStream> stream_; ///< null where a library reads the file
    std::string trouble_;
    std::uint64_t items_ = 0; ///< packets(); of queries and closes both
    Counters counters_;

private:
    bool capture_;
};

/// Opens a capture by content; `stream` is at its beginning, and what `path` names. Packets of an
/// interface whose link type is not read, in pcapng, have LinkType::kUnknown. Throws TraceError
/// where the file has no good beginning.
std::unique_ptr<TraceSource> open_source(std::unique_ptr<ByteStream> stream,
                                         const std::string& path);

/// The same of ERF. Null where libtrace does not take the file.
std::unique_ptr<TraceSource> open_erf(const std::string& path);

} // namespace reprise::trace
