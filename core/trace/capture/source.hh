#pragma once
// Where packets come from, chosen by what the file holds (never by its name): pcap and pcapng out
// of a decompressed stream; ERF through libtrace, from plain files.
//
// libtrace (Debian's 3.0.22) reads pcap too, but slower, and without pcapng, zst, lz4 and the link
// types SLL2, NULL, LOOP, MPLS and 228/229. Of a truncated gz or bz2 file it loses the packets
// before the cut, and over headers that tell of a frame of 64 KiB it ends the program.

#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/packet.hh"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::trace {

/// What is known of a trace that is being read, whatever its form. Opening throws TraceError; later
/// trouble ends the reading and stands in trouble().
class TraceSource {
public:
    virtual ~TraceSource() = default;
    TraceSource(const TraceSource&) = delete;
    TraceSource& operator=(const TraceSource&) = delete;

    /// One line naming the place and how much was good before it; empty where nothing went wrong.
    [[nodiscard]] const std::string& trouble() const { return trouble_; }

    /// Share of the file's bytes read so far, 0 to 1, as a rough measure of progress; 0 where the
    /// size is unknown (a pipe).
    [[nodiscard]] virtual double share_read() const { return stream_->share_read(); }

    /// For example "pcapng, gzip" or "text".
    [[nodiscard]] virtual std::string description() const { return describe(form_, *stream_); }

protected:
    TraceSource(std::string_view form, std::unique_ptr<ByteStream> stream)
        : form_(form), stream_(std::move(stream)) {}

    std::string_view form_;
    std::unique_ptr<ByteStream> stream_; ///< null where a library reads the file
    std::string trouble_;
};

/// Yields packets in file order.
class PacketSource : public TraceSource {
public:
    using TraceSource::TraceSource;

    /// False at the end and at trouble. `packet.bytes` is good until the next call.
    virtual bool next(Packet& packet) = 0;
};

/// Opens a capture by content; `stream` is at its beginning, and what `path` names. Packets of an
/// interface whose link type is not read, in pcapng, have LinkType::kUnknown. Throws TraceError
/// where the file has no good beginning.
std::unique_ptr<PacketSource> open_source(std::unique_ptr<ByteStream> stream,
                                          const std::string& path);

/// The same of ERF. Null where libtrace does not take the file.
std::unique_ptr<PacketSource> open_erf(const std::string& path);

} // namespace reprise::trace
