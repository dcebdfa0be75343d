// The only user of libtrace.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/reassembly/packet.hh"

#include <fmt/format.h>
#include <libtrace.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::uint64_t kHeaderSize = 16; ///< pcap and ERF alike

/// libtrace ends the whole program (by an assertion) over a packet that was 65,536 bytes or more on
/// the wire, where it counts 4 for the check sequence of an Ethernet frame. Headers say so where a
/// long segment was cut by the snap length, and where they are damaged.
constexpr std::uint32_t kLongestWire = LIBTRACE_PACKET_BUFSIZE - 1 - 4;

struct TraceCloser {
    void operator()(libtrace_t* trace) const { trace_destroy(trace); }
};

struct PacketCloser {
    void operator()(libtrace_packet_t* packet) const { trace_destroy_packet(packet); }
};

std::optional<LinkType> link_of(libtrace_linktype_t link) {
    switch (link) {
    case TRACE_TYPE_ETH:
        return LinkType::kEthernet;
    case TRACE_TYPE_NONE:
        return LinkType::kRaw;
    case TRACE_TYPE_LINUX_SLL:
        return LinkType::kSll;
    default:
        return std::nullopt;
    }
}

/// ERF time is seconds in 32.32 fixed point, one unit 0.23 ns: rounding gives back every
/// nanosecond, cutting would not.
Nanoseconds from_erf(std::uint64_t erf) {
    const std::uint64_t fraction = (erf & 0xffffffffU) * 1'000'000'000U + (1ULL << 31U);
    return static_cast<Nanoseconds>(erf >> 32U) * kSecond +
           static_cast<Nanoseconds>(fraction >> 32U);
}

/// Whether libtrace can take an ERF record: over one of a type that it does not know, or with a
/// length that has no room for what is in front of the frame, it crashes. Known are Ethernet (2
/// bytes of padding before the frame) with its colored kinds, and raw IP.
bool erf_fits(const std::uint8_t* record) {
    constexpr std::array<unsigned, 6> kErfTypes{2, 11, 16, 20, 22, 23};
    Cursor in({record, kHeaderSize});
    in.skip(8);
    const unsigned type = in.u8();
    in.skip(1);
    const size_t size = in.u16be();
    constexpr unsigned kMore = 0x80; // an extension header of 8 bytes follows
    size_t before = kHeaderSize;
    for (unsigned first = type; (first & kMore) != 0 && before + 8 <= size; before += 8) {
        first = record[before];
    }
    return std::ranges::find(kErfTypes, type & ~kMore) != kErfTypes.end() && before + 2 <= size;
}

/// libtrace reads a record's header and up to 65,535 bytes of frame into a buffer of 65,536, so the
/// longest frames would be written beyond its end. A buffer of ours has room for both.
libtrace_packet_t* create_packet() {
    libtrace_packet_t* packet = trace_create_packet();
    packet->buffer = std::malloc(2UL * LIBTRACE_PACKET_BUFSIZE); // freed with the packet
    packet->buf_control = TRACE_CTRL_PACKET;
    return packet;
}

class LibtraceSource final : public PacketSource {
public:
    LibtraceSource(std::unique_ptr<libtrace_t, TraceCloser> trace, std::string format,
                   PcapNumbers numbers, std::uint64_t size)
        : trace_(std::move(trace)), packet_(create_packet()), format_(std::move(format)),
          pcap_(format_ == "pcapfile"), numbers_(numbers), size_(size) {}

    bool next(Packet& packet) override {
        const int result = trace_read_packet(trace_.get(), packet_.get());
        if (result <= 0) {
            if (result < 0) {
                note(trace_get_err(trace_.get()).problem);
            }
            return false;
        }
        if (!fits()) {
            note(pcap_ ? "a packet that libtrace does not take"
                       : "a broken record, or not of Ethernet");
            return false;
        }
        return show(packet);
    }

    [[nodiscard]] double share_read() const override {
        return size_ == 0 ? 0
                          : std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(size_));
    }

    [[nodiscard]] std::string description() const override {
        return (pcap_ ? "pcap" : format_) + ", libtrace";
    }

private:
    /// Whether libtrace can be asked about the packet without ending the program.
    [[nodiscard]] bool fits() const { return pcap_ ? pcap_fits() : erf_fits(header().data()); }

    /// Also whether libtrace would show all that was captured, and whether there is a packet at
    /// all: libpcap says what to make of zeros.
    [[nodiscard]] bool pcap_fits() const {
        constexpr size_t kCapturedAt = 8;
        const std::uint32_t wire = wire_length_of_header();
        return wire <= kLongestWire && wire > 0 && number(kCapturedAt) <= wire;
    }

    [[nodiscard]] Bytes header() const {
        return {static_cast<const std::uint8_t*>(packet_->header), kHeaderSize};
    }

    /// Of a pcap record's header, seen before libtrace looks at it.
    [[nodiscard]] std::uint32_t number(size_t at) const {
        Cursor in(header());
        in.seek(at);
        return numbers_.big_endian ? in.u32be() : in.little<std::uint32_t>();
    }

    /// The last number of the header. libtrace's own counts 4 bytes more for Ethernet.
    [[nodiscard]] std::uint32_t wire_length_of_header() const {
        return number(kHeaderSize - sizeof(std::uint32_t));
    }

    /// libtrace's own is in units of 0.23 ns, and goes wrong where the fraction is over a second.
    [[nodiscard]] Nanoseconds time() const {
        return pcap_ ? pcap_time(number(0), number(sizeof(std::uint32_t)), numbers_.nanoseconds)
                     : from_erf(trace_get_erf_timestamp(packet_.get()));
    }

    [[nodiscard]] std::uint32_t wire_length() const {
        return pcap_ ? wire_length_of_header()
                     : static_cast<std::uint32_t>(trace_get_wire_length(packet_.get()));
    }

    bool show(Packet& packet) {
        libtrace_linktype_t type = TRACE_TYPE_UNKNOWN;
        std::uint32_t captured = 0;
        const auto* data = static_cast<const std::uint8_t*>(
            trace_get_packet_buffer(packet_.get(), &type, &captured));
        const auto link = link_of(type);
        if (data == nullptr || !link) {
            note("a packet of unknown link type");
            return false;
        }
        packet = {
            .link = *link, .time = time(), .bytes = {data, captured}, .wire_length = wire_length()};
        ++packets_;
        bytes_ += kHeaderSize + captured;
        return true;
    }

    void note(const char* what) {
        trouble_ = fmt::format("the trace is cut or corrupt after {} packets: {}", packets_, what);
    }

    std::unique_ptr<libtrace_t, TraceCloser> trace_;
    std::unique_ptr<libtrace_packet_t, PacketCloser> packet_; // goes before its trace
    std::string format_;
    bool pcap_;
    PcapNumbers numbers_;
    std::uint64_t packets_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t size_; ///< of the file
};

} // namespace

std::unique_ptr<PacketSource> open_libtrace(const std::string& format, const std::string& path,
                                            PcapNumbers numbers) {
    std::unique_ptr<libtrace_t, TraceCloser> trace(trace_create((format + ":" + path).c_str()));
    if (!trace || trace_is_err(trace.get()) || trace_start(trace.get()) != 0) {
        return nullptr;
    }
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    return std::make_unique<LibtraceSource>(std::move(trace), format, numbers, ignored ? 0 : size);
}

} // namespace reprise::trace
