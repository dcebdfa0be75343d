// The only user of libpcap.
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdio.h> // NOLINT(modernize-deprecated-headers): fopencookie is not in cstdio
#include <stdio_ext.h>
#include <string>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::uint64_t kFileHeader = 24;
constexpr std::uint64_t kRecordHeader = 16;

using OpenFile = std::unique_ptr<FILE, decltype([](auto* file) { std::fclose(file); })>;
/// Closes its FILE as well.
using OpenPcap = std::unique_ptr<pcap_t, decltype([](auto* pcap) { pcap_close(pcap); })>;

/// What libpcap reads from.
struct PcapInput {
    ByteStream* stream;
    std::uint64_t offset = 0; ///< bytes handed over
};

/// The file's snap length is hidden (0 is the most that there can be): libpcap cuts packets that
/// are longer, and Wireshark does not.
void hide_snap_length(std::uint64_t offset, std::uint8_t* out, size_t size) {
    constexpr std::uint64_t kAt = 16;
    constexpr std::uint64_t kBehind = 20;
    for (std::uint64_t at = std::max(offset, kAt); at < std::min(offset + size, kBehind); ++at) {
        out[at - offset] = 0;
    }
}

ssize_t read_cookie(void* cookie, char* out, size_t size) {
    PcapInput& input = *static_cast<PcapInput*>(cookie);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(out);
    // A live pipe may have no more for now.
    const std::int64_t got = input.stream->read_some(bytes, size);
    if (got > 0) {
        hide_snap_length(input.offset, bytes, static_cast<size_t>(got));
        input.offset += static_cast<std::uint64_t>(got);
    }
    return got;
}

/// By the magic number, in either byte order.
bool has_nanoseconds(Bytes head) {
    const std::uint32_t magic = Cursor(head).u32be();
    return magic == 0xa1b23c4dU || magic == 0x4d3cb2a1U;
}

class PcapSource final : public PacketSource {
public:
    PcapSource(std::unique_ptr<ByteStream> stream, const std::string& path)
        : PacketSource("pcap", std::move(stream)), input_{.stream = stream_.get()},
          nanoseconds_(has_nanoseconds(stream_->peek(sizeof(std::uint32_t)))) {
        open(path);
        const int number = pcap_datalink(pcap_.get());
        const auto link = link_type(number);
        if (!link) {
            const char* name = pcap_datalink_val_to_description_or_dlt(number);
            throw TraceError(
                fmt::format("trace {} has link type {} ({}), which is not read; give a capture of "
                            "Ethernet, Linux cooked, loopback, 802.11, MPLS or raw IP",
                            path, number, name));
        }
        link_ = *link;
    }

    bool next(Packet& packet) override {
        pcap_pkthdr* header = nullptr;
        const u_char* data = nullptr;
        const int result = pcap_next_ex(pcap_.get(), &header, &data);
        if (result != 1) {
            end(result);
            return false;
        }
        if (header->ts.tv_sec == 0 && header->ts.tv_usec == 0 && header->len == 0) {
            note("zeros instead of packets");
            return false;
        }
        packet = {.link = link_,
                  .time = time_of(header->ts),
                  .bytes = {data, header->caplen},
                  .wire_length = header->len};
        ++packets_;
        offset_ += kRecordHeader + header->caplen;
        return true;
    }

    [[nodiscard]] std::string description() const override {
        return PacketSource::description() + ", libpcap";
    }

private:
    /// libpcap hands on the file's own numbers, as signed ones, where it is asked for the file's
    /// precision. A fraction of more than a second is added all the same.
    [[nodiscard]] Nanoseconds time_of(const timeval& time) const {
        return static_cast<std::uint32_t>(time.tv_sec) * kSecond +
               static_cast<std::uint32_t>(time.tv_usec) * (nanoseconds_ ? 1 : kMicrosecond);
    }

    void open(const std::string& path) {
        OpenFile file(fopencookie(
            &input_, "r",
            {.read = read_cookie, .write = nullptr, .seek = nullptr, .close = nullptr}));
        // One thread alone reads it, perhaps from a pipe for ever, and exit() of glibc 2.41 waits
        // for the lock of every open file.
        if (file) {
            __fsetlocking(file.get(), FSETLOCKING_BYCALLER);
        }
        std::array<char, PCAP_ERRBUF_SIZE> text{};
        pcap_.reset(pcap_fopen_offline_with_tstamp_precision(
            file.get(), nanoseconds_ ? PCAP_TSTAMP_PRECISION_NANO : PCAP_TSTAMP_PRECISION_MICRO,
            text.data()));
        if (!pcap_) {
            const std::string& error = stream_->error();
            throw TraceError(
                fmt::format("trace {} is not a readable pcap file: {}; check how it was made or "
                            "copied",
                            path, error.empty() ? text.data() : error));
        }
        FILE* const taken = file.release(); // belongs to pcap_ now
        static_cast<void>(taken);
    }

    void end(int result) {
        if (!stream_->error().empty()) {
            note(stream_->error());
        } else if (result == PCAP_ERROR) {
            note(pcap_geterr(pcap_.get()));
        }
    }

    void note(const std::string& what) {
        trouble_ = fmt::format("the trace is cut or corrupt after {} packets, at byte {} of the "
                               "capture: {}",
                               packets_, offset_, what);
    }

    PcapInput input_; // outlives pcap_, which reads from it
    bool nanoseconds_;
    OpenPcap pcap_;
    LinkType link_ = LinkType::kEthernet;
    std::uint64_t packets_ = 0;
    std::uint64_t offset_ = kFileHeader; ///< of the next record, in a pcap file
};

} // namespace

std::unique_ptr<PacketSource> open_pcap(std::unique_ptr<ByteStream> stream,
                                        const std::string& path) {
    return std::make_unique<PcapSource>(std::move(stream), path);
}

} // namespace reprise::trace
