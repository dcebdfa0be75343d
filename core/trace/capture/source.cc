// pcap and pcapng, as draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng describe them. Our own
// because libpcap takes one link type and one snapshot length a file: it refuses pcapng that
// Wireshark writes of several interfaces, and what mergecap makes of several files.
//
// pcap is a header, which says the byte order, the unit of time and the link type, and packets. The
// snapshot length that it tells is not looked at: longer packets are whole.
//
// pcapng is a row of blocks: type, length, body, length again. A section header says the byte order
// of what follows and forgets the interfaces before it; each interface has its own link type and
// unit of time, and packets name their interface by its number in the section.
#include "core/trace/capture/source.hh"

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

constexpr std::uint32_t kMicroseconds = 0xa1b2c3d4; // magic numbers of pcap
constexpr std::uint32_t kNanoseconds = 0xa1b23c4d;
constexpr std::uint32_t kLongHeaders = 0xa1b2cd34;
constexpr size_t kFileHeader = 24;
constexpr size_t kPacketHeader = 16;
constexpr size_t kLongPacketHeader = 24;
constexpr std::uint32_t kMostPacket = 262'144; // as libpcap and Wireshark have it

constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
constexpr std::uint32_t kInterface = 1;
constexpr std::uint32_t kPacketOfOld = 2; // obsolete, and still written by some
constexpr std::uint32_t kSimplePacket = 3;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;

constexpr std::uint32_t kBlockHeader = 8;
constexpr std::uint32_t kBlockTrailer = 4;
constexpr std::uint32_t kMostBlock = 16U << 20U; // of those that are kept, as libpcap has it
constexpr std::uint32_t kStep = 65'536;          // of those that are not
constexpr size_t kMostInterfaces = 65'536;

constexpr const char* kCutPacket = "a packet is cut";
constexpr const char* kCutBlock = "a block is cut";

bool is_pcap(std::uint32_t magic) {
    return magic == kMicroseconds || magic == kNanoseconds || magic == kLongHeaders;
}

/// Numbers in the file's or section's byte order.
class Numbers : public Cursor {
public:
    Numbers(Bytes bytes, bool swapped) : Cursor(bytes), swapped_(swapped) {}

    std::uint16_t u16() {
        const auto value = little<std::uint16_t>();
        return swapped_ ? __builtin_bswap16(value) : value;
    }

    std::uint32_t u32() {
        const auto value = little<std::uint32_t>();
        return swapped_ ? __builtin_bswap32(value) : value;
    }

    std::uint64_t u64() {
        const auto value = little<std::uint64_t>();
        return swapped_ ? __builtin_bswap64(value) : value;
    }

    /// Cut where there are fewer.
    Bytes take_at_most(size_t size) { return take(std::min(size, left())); }

private:
    bool swapped_;
};

struct Interface {
    LinkType link = LinkType::kUnknown;
    std::uint32_t snap_length = 0;              ///< 0: none
    std::uint64_t ticks_per_second = 1'000'000; ///< if_tsresol
    std::int64_t offset = 0;                    ///< if_tsoffset, seconds
};

/// if_tsresol: a power of ten, or with the upper bit of two. Nothing where it has no room.
std::optional<std::uint64_t> ticks_of(std::uint8_t resolution) {
    const unsigned exponent = resolution & 0x7fU;
    const bool binary = (resolution & 0x80U) != 0;
    if (exponent > (binary ? 63U : 19U)) {
        return std::nullopt;
    }
    std::uint64_t ticks = 1;
    for (unsigned i = 0; i < exponent; ++i) {
        ticks *= binary ? 2 : 10;
    }
    return ticks;
}

/// Nothing where it is before 1970 or after 2149.
std::optional<Nanoseconds> time_of(const Interface& from, std::uint64_t ticks) {
    __extension__ using Wide = unsigned __int128;
    constexpr std::int64_t kEnd = kEndOfTraceTime / kSecond;
    const std::uint64_t whole = ticks / from.ticks_per_second;
    std::int64_t seconds = 0;
    if (whole > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
        __builtin_add_overflow(static_cast<std::int64_t>(whole), from.offset, &seconds) ||
        seconds < 0 || seconds >= kEnd) {
        return std::nullopt;
    }
    const std::uint64_t rest = ticks % from.ticks_per_second;
    const bool narrow = from.ticks_per_second <= 1'000'000'000; // most: no division of 128 bits
    return seconds * kSecond +
           static_cast<Nanoseconds>(narrow ? rest * kSecond / from.ticks_per_second
                                           : Wide{rest} * kSecond / from.ticks_per_second);
}

/// What both have in common: a file is headers and what belongs to each.
class FileSource : public TraceSource {
protected:
    FileSource(std::string_view form, std::unique_ptr<ByteStream> stream)
        : TraceSource(form, std::move(stream), true) {}

    /// Reads a header, where the file may also end before it.
    bool fetch_header(std::span<std::uint8_t> out, const char* cut) {
        begin_ = stream_->offset();
        const size_t got = stream_->read(out);
        const bool ended = got == 0 && stream_->error().empty();
        return got == out.size() || (!ended && fail(cut));
    }

    /// Reads what belongs to it. `cut` is the trouble where there is less.
    bool fetch(std::span<std::uint8_t> out, const char* cut) {
        return stream_->read(out) == out.size() || fail(cut);
    }

    bool fail(const std::string& what) {
        trouble_ = fmt::format("the trace is cut or corrupt after {} packets, at byte {} of the "
                               "capture: {}",
                               items_, begin_, stream_->error().empty() ? what : stream_->error());
        return false;
    }

    /// Throws where opening has failed.
    void demand_readable(const std::string& path) const {
        if (!trouble_.empty()) {
            throw TraceError(
                fmt::format("trace {} is not a readable {} file: {}; check how it was made or "
                            "copied",
                            path, form_, trouble_));
        }
    }

    /// Bytes read since the header's beginning.
    [[nodiscard]] std::uint64_t taken() const { return stream_->offset() - begin_; }

private:
    std::uint64_t begin_ = 0; ///< of the header read last
};

class PcapSource final : public FileSource {
public:
    PcapSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : FileSource("pcap", std::move(stream)) {
        std::array<std::uint8_t, kFileHeader> header{};
        if (fetch(header, "its header is cut")) {
            read_header(header, path);
        }
        demand_readable(path);
    }

    bool next(Packet& packet, Query& /*query*/) override {
        std::array<std::uint8_t, kLongPacketHeader> header{};
        if (!fetch_header(std::span(header).first(header_size_), kCutPacket)) {
            return false;
        }
        Numbers in(header, swapped_);
        const std::uint32_t seconds = in.u32();
        const std::uint32_t fraction = in.u32(); // of more than a second is added all the same
        const std::uint32_t captured = in.u32();
        const std::uint32_t wire = in.u32();
        if (seconds == 0 && fraction == 0 && wire == 0) {
            return fail("zeros instead of packets");
        }
        if (captured > kMostPacket) {
            return fail(fmt::format("a packet of {} bytes", captured));
        }
        data_.resize(captured);
        if (!fetch(data_, kCutPacket)) {
            return false;
        }
        packet = {.link = link_,
                  .time = seconds * kSecond + fraction * unit_of_time_,
                  .bytes = data_,
                  .wire_length = wire};
        ++items_;
        return true;
    }

private:
    void read_header(Bytes header, const std::string& path) {
        constexpr std::uint16_t kMajor = 2;
        constexpr std::uint16_t kMinor = 4;
        constexpr std::uint32_t kLink = 0x03ff'ffff; // the rest is about check sums of frames
        swapped_ = !is_pcap(Cursor(header).little<std::uint32_t>());
        Numbers in(header, swapped_);
        const std::uint32_t magic = in.u32();
        unit_of_time_ = magic == kNanoseconds ? 1 : kMicrosecond;
        header_size_ = magic == kLongHeaders ? kLongPacketHeader : kPacketHeader;
        const std::uint16_t major = in.u16();
        const std::uint16_t minor = in.u16();
        if (major != kMajor || minor != kMinor) {
            fail(fmt::format("a header of version {}.{}", major, minor));
            return;
        }
        in.u64(); // zone and accuracy, always 0
        in.u32(); // snapshot length
        const std::uint32_t number = in.u32() & kLink;
        const auto link = link_type(static_cast<int>(number));
        if (!link) {
            throw TraceError(
                fmt::format("trace {} has link type {}, which is not read; give a capture of "
                            "Ethernet, Linux cooked, loopback, MPLS or raw IP",
                            path, number));
        }
        link_ = *link;
    }

    bool swapped_ = false;
    Nanoseconds unit_of_time_ = 1;
    size_t header_size_ = 0; ///< of a packet
    LinkType link_ = LinkType::kEthernet;
    std::vector<std::uint8_t> data_; ///< of the packet read last
};

class PcapngSource final : public FileSource {
public:
    PcapngSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : FileSource("pcapng", std::move(stream)) {
        while (interfaces_.empty() && read_block()) {
        }
        demand_readable(path);
    }

    bool next(Packet& packet, Query& /*query*/) override {
        while (!std::exchange(waiting_, false)) {
            if (!read_block()) {
                return false;
            }
        }
        packet = packet_;
        ++items_;
        return true;
    }

private:
    bool read_block() {
        if (!trouble_.empty()) {
            return false;
        }
        std::uint32_t type = 0;
        std::uint32_t size = 0;
        if (!read_header(type, size)) {
            return false;
        }
        const auto done = static_cast<std::uint32_t>(taken());
        const bool kept = type == kInterface || type == kPacketOfOld || type == kSimplePacket ||
                          type == kEnhancedPacket;
        if (size < done + kBlockTrailer || size % 4 != 0 || (kept && size > kMostBlock)) {
            return fail(fmt::format("a block of {} bytes", size));
        }
        const std::uint32_t body = size - done - kBlockTrailer;
        block_.resize((kept ? body : std::min(body, kStep)) + kBlockTrailer);
        const bool skipped = kept || skip_body(body);
        const std::span<std::uint8_t> rest = kept ? block_ : std::span(block_).first(kBlockTrailer);
        if (!skipped || !fetch(rest, kCutBlock)) {
            return false;
        }
        if (Numbers(rest.last(kBlockTrailer), swapped_).u32() != size) {
            return fail("a block's two lengths differ");
        }
        return !kept || take(type, rest.first(body));
    }

    /// Type and length of the next block, a section's byte order found on the way; false at the
    /// end.
    bool read_header(std::uint32_t& type, std::uint32_t& size) {
        std::array<std::uint8_t, kBlockHeader> bytes{};
        if (!fetch_header(bytes, kCutBlock)) {
            return false;
        }
        Numbers in(bytes, swapped_);
        type = in.u32();
        size = in.u32();
        return type != kSectionHeader || read_section(bytes, size); // the same in both byte orders
    }

    bool read_section(Bytes header, std::uint32_t& size) {
        constexpr std::uint16_t kVersion = 1;
        std::array<std::uint8_t, 8> bytes{};
        if (!fetch(bytes, kCutBlock)) {
            return false;
        }
        swapped_ = Cursor(bytes).little<std::uint32_t>() != kByteOrderMagic;
        size = Numbers(header.subspan(sizeof(std::uint32_t)), swapped_).u32();
        interfaces_.clear();
        Numbers in(bytes, swapped_);
        if (in.u32() != kByteOrderMagic) {
            return fail("a section without a byte order");
        }
        const std::uint16_t version = in.u16();
        return version == kVersion || fail(fmt::format("a section of version {}", version));
    }

    bool skip_body(std::uint32_t size) {
        for (std::uint32_t left = size; left > 0; left -= std::min(left, kStep)) {
            if (!fetch(std::span(block_).first(std::min(left, kStep)), kCutBlock)) {
                return false;
            }
        }
        return true;
    }

    bool take(std::uint32_t type, Bytes body) {
        const Numbers in(body, swapped_);
        return type == kInterface      ? take_interface(in)
               : type == kSimplePacket ? take_simple(in)
                                       : take_packet(in, type == kPacketOfOld);
    }

    bool take_interface(Numbers in) {
        Interface interface{.link = link_type(in.u16()).value_or(LinkType::kUnknown)};
        in.u16(); // reserved
        interface.snap_length = in.u32();
        while (in.ok() && in.left() >= 4) {
            const std::uint16_t code = in.u16();
            const size_t size = in.u16();
            if (code == 0) {
                break;
            }
            if (!take_option(interface, code, in.take(size))) {
                return fail("an interface's time has a unit that cannot be");
            }
            in.take_at_most((4 - size % 4) % 4); // padding
        }
        if (!in.ok() || interfaces_.size() == kMostInterfaces) {
            return fail(in.ok() ? "too many interfaces" : "an interface is cut");
        }
        interfaces_.push_back(interface);
        return true;
    }

    bool take_option(Interface& interface, std::uint16_t code, Bytes value) {
        constexpr std::uint16_t kResolution = 9;
        constexpr std::uint16_t kOffset = 14;
        if (code == kResolution && value.size() == 1) {
            const auto ticks = ticks_of(value[0]);
            interface.ticks_per_second = ticks.value_or(1);
            return ticks.has_value();
        }
        if (code == kOffset && value.size() == 8) {
            interface.offset = static_cast<std::int64_t>(Numbers(value, swapped_).u64());
        }
        return true;
    }

    /// A packet with its time; `old`: of the obsolete kind.
    bool take_packet(Numbers in, bool old) {
        const std::uint32_t interface = old ? in.u16() : in.u32();
        if (old) {
            in.u16(); // packets dropped before
        }
        const std::uint64_t high = in.u32();
        const std::uint64_t ticks = high << 32U | in.u32();
        const std::uint32_t captured = in.u32();
        const std::uint32_t wire = in.u32();
        if (!in.ok() || captured > in.left()) {
            return fail("a packet is longer than its block");
        }
        if (interface >= interfaces_.size()) {
            return fail(fmt::format("a packet of interface {}, which is not described", interface));
        }
        const auto time = time_of(interfaces_[interface], ticks);
        if (!time) {
            return fail("a packet's time is before 1970 or after 2149");
        }
        waiting_ = true;
        packet_ = {.link = interfaces_[interface].link,
                   .time = *time,
                   .bytes = in.take_at_most(captured),
                   .wire_length = wire};
        return true;
    }

    /// Of the first interface, without a time: that of the packet before stands for it.
    bool take_simple(Numbers in) {
        const std::uint32_t wire = in.u32();
        if (!in.ok() || interfaces_.empty()) {
            return fail("a packet without an interface");
        }
        const Interface& interface = interfaces_.front();
        const std::uint32_t most = interface.snap_length == 0 ? wire : interface.snap_length;
        waiting_ = true;
        packet_ = {.link = interface.link,
                   .time = packet_.time,
                   .bytes = in.take_at_most(std::min(wire, most)),
                   .wire_length = wire};
        return true;
    }

    bool swapped_ = false;              ///< numbers of this section
    std::vector<Interface> interfaces_; ///< of this section
    std::vector<std::uint8_t> block_;   ///< body and trailer of the block read last
    Packet packet_;                     ///< the one read last
    bool waiting_ = false;              ///< it was not yielded yet
};

/// ERF has no magic: the first record must be Ethernet (type 2, perhaps with extension headers), of
/// this century, not longer than the frame with its headers and padding.
bool looks_like_erf(Bytes head) {
    Cursor in(head);
    in.skip(4);
    const auto seconds = in.little<std::uint32_t>();
    const unsigned type = in.u8() & 0x7fU;
    in.skip(1);
    const size_t record = in.u16be();
    in.skip(2);
    const size_t wire = in.u16be();
    return in.ok() && type == 2 && seconds > 946'684'800U && record >= 32 && wire >= 14 &&
           record <= wire + 64;
}

/// Text is shown as it is, up to the end of its line.
std::string beginning(Bytes head) {
    const std::string text(head.begin(), std::ranges::find_if(head, [](std::uint8_t byte) {
                               return byte < ' ' || byte > '~';
                           }));
    constexpr size_t kShown = 4;
    constexpr size_t kShownText = 40;
    if (text.size() >= kShown) {
        return '"' + text.substr(0, kShownText) + '"';
    }
    std::string digits;
    for (const std::uint8_t byte : head.first(std::min(head.size(), kShown))) {
        digits += fmt::format("{}{:02x}", digits.empty() ? "" : " ", byte);
    }
    return digits;
}

[[noreturn]] void refuse(const std::string& path, const ByteStream& stream, Bytes head) {
    if (!stream.error().empty()) {
        throw TraceError(
            fmt::format("trace {} cannot be decompressed: {}; copy or compress it again", path,
                        stream.error()));
    }
    if (head.empty()) {
        throw TraceError(fmt::format("trace {} is empty; give a capture with packets", path));
    }
    if (const unsigned mark = Cursor(head).u16be(); mark == 0xfffe || mark == 0xfeff) {
        throw TraceError(fmt::format(
            "trace {} is text in UTF-16; save it as UTF-8, e.g. with iconv -f UTF-16 -t UTF-8",
            path));
    }
    throw TraceError(fmt::format(
        "trace {} is not a packet capture (it begins with {}), nor a trace of another known "
        "form; "
        "give pcap, pcapng, .tsv or .rps, plain or compressed with gz, bz2, xz, zst or lz4",
        path, beginning(head)));
}

} // namespace

std::unique_ptr<TraceSource> open_source(std::unique_ptr<ByteStream> stream,
                                         const std::string& path) {
    const Bytes head = stream->peek(kFileHeader);
    const std::uint32_t magic = Cursor(head).u32be();
    if (magic == kSectionHeader) {
        return std::make_unique<PcapngSource>(std::move(stream), path);
    }
    if (is_pcap(magic) || is_pcap(__builtin_bswap32(magic))) {
        return std::make_unique<PcapSource>(std::move(stream), path);
    }
    if (!looks_like_erf(head)) {
        refuse(path, *stream, head);
    }
    auto erf = stream->regular() && stream->compression().empty() ? open_erf(path) : nullptr;
    if (!erf) {
        throw TraceError(fmt::format(
            "trace {} looks like ERF, which is read from plain files only; decompress it first",
            path));
    }
    return erf;
}

} // namespace reprise::trace
