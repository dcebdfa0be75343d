#include "core/trace/capture/source.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace reprise::trace {
namespace {

enum class Format : std::uint8_t { kUnknown, kPcap, kPcapng, kErf };

struct Content {
    Format format = Format::kUnknown;
    PcapNumbers numbers{};
    std::uint32_t link = 0; ///< of a pcap file: the whole field
};

constexpr std::uint64_t kPcapFileHeader = 24;
constexpr std::uint64_t kPcapRecordHeader = 16;
constexpr size_t kSniffed = kPcapFileHeader;

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

Content recognize(Bytes head) {
    Cursor in(head);
    const std::uint32_t magic = in.u32be();
    const std::uint32_t swapped = __builtin_bswap32(magic);
    if (magic == 0x0a0d0d0aU) {
        return {.format = Format::kPcapng};
    }
    if (pcap_magic(magic) || pcap_magic(swapped)) {
        in.seek(20);
        const std::uint32_t link = in.u32be();
        const bool big_endian = pcap_magic(magic);
        return {.format = Format::kPcap,
                .numbers = {.big_endian = big_endian, .nanoseconds = has_nanoseconds(head)},
                .link = big_endian ? link : __builtin_bswap32(link)};
    }
    return {.format = looks_like_erf(head) ? Format::kErf : Format::kUnknown};
}

/// The upper half of the field tells about frame check sequences: libtrace takes all of it for the
/// link type, and ends the program over one that it does not know.
bool libtrace_reads(std::uint32_t link) {
    return link == 1 || link == 12 || link == 14 || link == 101 || link == 113;
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

/// libtrace while it reads, libpcap from the packet where libtrace failed: through a descriptor
/// that was opened with it, as there may no longer be a right to open the file again.
class FallbackSource final : public PacketSource {
public:
    FallbackSource(std::unique_ptr<PacketSource> first, FileDescriptor file, std::string path)
        : current_(std::move(first)), file_(std::move(file)), path_(std::move(path)) {}

    bool next(Packet& packet) override {
        if (current_->next(packet)) {
            ++packets_;
            offset_ += kPcapRecordHeader + packet.bytes.size();
            return true;
        }
        return (!current_->trouble().empty() || bytes_left()) && fall_back() && next(packet);
    }

    [[nodiscard]] const std::string& trouble() const override { return current_->trouble(); }

    [[nodiscard]] double share_read() const override { return current_->share_read(); }

    [[nodiscard]] std::string description() const override { return current_->description(); }

private:
    /// libtrace takes a record header of one byte for the end.
    [[nodiscard]] bool bytes_left() const {
        struct stat status{};
        return fstat(file_.get(), &status) == 0 &&
               static_cast<std::uint64_t>(status.st_size) > offset_;
    }

    /// Starts again at the beginning of the file and skips what was read.
    bool fall_back() {
        if (std::exchange(fallen_back_, true)) {
            return false;
        }
        try {
            auto again = open_pcap(std::make_unique<ByteStream>(std::move(file_), path_), path_);
            Packet passed;
            for (std::uint64_t i = 0; i < packets_; ++i) {
                again->next(passed);
            }
            current_ = std::move(again);
            return true;
        } catch (const Error&) {
            return false; // libtrace's own words stay in trouble()
        }
    }

    std::unique_ptr<PacketSource> current_;
    FileDescriptor file_; ///< until it is read again
    std::string path_;
    std::uint64_t packets_ = 0;
    std::uint64_t offset_ = kPcapFileHeader;
    bool fallen_back_ = false;
};

std::unique_ptr<PacketSource> try_libtrace(const Content& content, ByteStream& stream,
                                           const std::string& path) {
    if (!stream.regular() || !stream.compression().empty()) {
        return nullptr;
    }
    if (content.format == Format::kErf) {
        return open_libtrace("erf", path, {});
    }
    if (content.format != Format::kPcap || !libtrace_reads(content.link)) {
        return nullptr;
    }
    auto source = open_libtrace("pcapfile", path, content.numbers);
    return source ? std::make_unique<FallbackSource>(std::move(source), stream.take_file(), path)
                  : nullptr;
}

} // namespace

std::unique_ptr<PacketSource> open_source(std::unique_ptr<ByteStream> stream,
                                          const std::string& path) {
    const Bytes head = stream->peek(kSniffed);
    const Content content = recognize(head);
    if (content.format == Format::kUnknown) {
        refuse(path, *stream, head);
    }
    if (auto source = try_libtrace(content, *stream, path)) {
        return source;
    }
    if (content.format == Format::kErf) {
        throw TraceError(fmt::format(
            "trace {} looks like ERF, which is read from plain files only; decompress it first",
            path));
    }
    return content.format == Format::kPcap ? open_pcap(std::move(stream), path)
                                           : open_pcapng(std::move(stream), path);
}

} // namespace reprise::trace
