#pragma once
// Where packets come from. Two backends, chosen by what the file holds (never by its name):
//
//   plain pcap, link types Ethernet, raw IP, SLL       libtrace, `pcapfile:`
//   ERF                                                libtrace, `erf:`
//   everything else: pcapng, compressed files, pipes   libpcap, reading through libarchive
//   and the link types SLL2, NULL, LOOP, 228, 229, MPLS, 802.11, radiotap
//
// Why libtrace has no more of it (Debian's 3.0.22): it has no pcapng, no zst and lz4, and yields
// link type "unknown" for SLL2, NULL, LOOP, MPLS and 228/229. On a truncated gz or bz2 file its
// reader also loses the packets before the cut, so compressed files go to libarchive, which keeps
// them and says what is wrong. `pcap:` (libtrace over libpcap) cuts times to microseconds and is
// not used; `pcapfile:` keeps nanoseconds. Frames over 64 KiB (large receive offload on a loopback)
// end libtrace's reading, and headers that tell of such a frame, cut by the snap length, would end
// the program: whenever libtrace reports an error or is not to see a packet, the file is read again
// by libpcap from the packet in question, which either goes on or tells what is wrong and where.
// Files with frame check sequences (flags in the link field) go to libpcap from the start.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::trace {

/// What is known of a trace that is being read, whatever its form. Opening throws TraceError; later
/// trouble ends the reading and stands in trouble().
class TraceSource {
public:
    TraceSource() = default;
    virtual ~TraceSource() = default;
    TraceSource(const TraceSource&) = delete;
    TraceSource& operator=(const TraceSource&) = delete;

    /// One line naming the place and how much was good before it; empty where nothing went wrong.
    [[nodiscard]] virtual const std::string& trouble() const { return trouble_; }

    /// Share of the file's bytes read so far, 0 to 1, as a rough measure of progress; 0 where the
    /// size is unknown (a pipe).
    [[nodiscard]] virtual double share_read() const = 0;

    /// For example "pcapng, gzip, libpcap" or "text".
    [[nodiscard]] virtual std::string description() const = 0;

protected:
    std::string trouble_;
};

/// Yields packets in file order.
class PacketSource : public TraceSource {
public:
    /// False at the end and at trouble. `packet.bytes` is good until the next call.
    virtual bool next(Packet& packet) = 0;
};

/// Opens a capture by content; `stream` is at its beginning, and what `path` names.
std::unique_ptr<PacketSource> open_source(std::unique_ptr<ByteStream> stream,
                                          const std::string& path);

// What open_source() chooses from, as told above.

/// Whether a pcap file's times are in nanoseconds, by its magic number in either byte order.
bool has_nanoseconds(Bytes head);

/// A record's time. Both numbers are unsigned; a fraction of more than a second is added all the
/// same.
Nanoseconds pcap_time(std::uint32_t seconds, std::uint32_t fraction, bool nanoseconds);

/// Packets of a pcap file by libpcap, out of a decompressed stream.
std::unique_ptr<PacketSource> open_pcap(std::unique_ptr<ByteStream> stream,
                                        const std::string& path);

/// Packets of a pcapng file, out of a decompressed stream; those of an interface whose link type is
/// not read have LinkType::kUnknown. Throws TraceError where it has no good beginning.
std::unique_ptr<PacketSource> open_pcapng(std::unique_ptr<ByteStream> stream,
                                          const std::string& path);

/// The numbers in a pcap file's record headers.
struct PcapNumbers {
    bool big_endian = false;
    bool nanoseconds = false;
};

/// Packets by libtrace: `format` is its name for it, "pcapfile" or "erf". Null where libtrace does
/// not take the file.
std::unique_ptr<PacketSource> open_libtrace(const std::string& format, const std::string& path,
                                            PcapNumbers numbers);

} // namespace reprise::trace
