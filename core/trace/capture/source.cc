#include "core/trace/capture/source.hh"

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/options.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace reprise::trace {
namespace {

constexpr size_t kSniffed = 24;

/// Magic numbers of pcap: microseconds, nanoseconds, and the variant with a longer record header.
bool pcap_magic(std::uint32_t magic) {
    return magic == 0xa1b2c3d4U || magic == 0xa1b23c4dU || magic == 0xa1b2cd34U;
}

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
    return text.size() < kShown
               ? fmt::format("{:02x}", fmt::join(head.first(std::min(head.size(), kShown)), " "))
               : '"' + text.substr(0, kShownText) + '"';
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
    if (head.size() > 1 && (load16(head.data()) == 0xfffe || load16(head.data()) == 0xfeff)) {
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

std::unique_ptr<PacketSource> open_source(std::unique_ptr<ByteStream> stream,
                                          const std::string& path) {
    constexpr std::uint32_t kPcapng = 0x0a0d0d0a;
    const Bytes head = stream->peek(kSniffed);
    const std::uint32_t magic = Cursor(head).u32be();
    if (magic == kPcapng) {
        return open_pcapng(std::move(stream), path);
    }
    if (pcap_magic(magic) || pcap_magic(__builtin_bswap32(magic))) {
        return open_pcap(std::move(stream), path);
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
