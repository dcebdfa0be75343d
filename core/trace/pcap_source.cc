// The only user of libpcap.
#include "core/trace/pcap_source.hh"

#include "core/clock.hh"
#include "core/trace/packet.hh"
#include "core/trace/reader.hh"
#include "core/trace/source.hh"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdio.h> // NOLINT(modernize-deprecated-headers): fopencookie is not in cstdio
#include <string>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::uint64_t kFileHeader = 24;
constexpr std::uint64_t kRecordHeader = 16;

struct PcapCloser {
    void operator()(pcap_t* pcap) const { pcap_close(pcap); } // closes its FILE as well
};

struct FileCloser {
    void operator()(FILE* file) const { std::fclose(file); }
};

ssize_t read_cookie(void* cookie, char* out, size_t size) {
    // A live pipe may have no more for now.
    return static_cast<ByteStream*>(cookie)->read_some(reinterpret_cast<std::uint8_t*>(out), size);
}

class PcapSource final : public PacketSource {
public:
    PcapSource(std::unique_ptr<ByteStream> stream, const std::string& path, std::string format)
        : stream_(std::move(stream)), format_(std::move(format)) {
        open(path);
        const int number = pcap_datalink(pcap_.get());
        const auto link = link_type(number);
        if (!link) {
            const char* name = pcap_datalink_val_to_description_or_dlt(number);
            throw TraceError(
                fmt::format("trace {} has link type {} ({}), which is not read; give a capture of "
                            "Ethernet, Linux cooked, loopback or raw IP",
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
        // With nanosecond precision asked for, tv_usec holds nanoseconds.
        packet = {.link = link_,
                  .time = header->ts.tv_sec * kSecond + header->ts.tv_usec,
                  .bytes = {data, header->caplen},
                  .wire_length = header->len};
        ++packets_;
        offset_ += kRecordHeader + header->caplen;
        return true;
    }

    [[nodiscard]] const std::string& trouble() const override { return trouble_; }

    [[nodiscard]] double share_read() const override { return stream_->share_read(); }

    [[nodiscard]] std::string description() const override {
        const std::string& compression = stream_->compression();
        return fmt::format("{}{}{}, libpcap", format_, compression.empty() ? "" : ", ",
                           compression);
    }

private:
    void open(const std::string& path) {
        std::unique_ptr<FILE, FileCloser> file(fopencookie(
            stream_.get(), "r",
            {.read = read_cookie, .write = nullptr, .seek = nullptr, .close = nullptr}));
        std::array<char, PCAP_ERRBUF_SIZE> text{};
        pcap_.reset(pcap_fopen_offline_with_tstamp_precision(file.get(), PCAP_TSTAMP_PRECISION_NANO,
                                                             text.data()));
        if (!pcap_) {
            throw TraceError(fmt::format(
                "trace {} is no readable {} file: {}; check how it was made or copied", path,
                format_, stream_->error().empty() ? text.data() : stream_->error()));
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
        const std::string place =
            format_ == "pcap" ? fmt::format(", at byte {} of the capture", offset_) : "";
        trouble_ = fmt::format("the trace is cut or corrupt after {} packets{}: {}", packets_,
                               place, what);
    }

    std::unique_ptr<ByteStream> stream_; // outlives pcap_, which reads from it
    std::string format_;
    std::unique_ptr<pcap_t, PcapCloser> pcap_;
    LinkType link_ = LinkType::kEthernet;
    std::uint64_t packets_ = 0;
    std::uint64_t offset_ = kFileHeader; ///< of the next record, in a pcap file
    std::string trouble_;
};

} // namespace

std::unique_ptr<PacketSource> open_pcap(std::unique_ptr<ByteStream> stream, const std::string& path,
                                        const std::string& format) {
    return std::make_unique<PcapSource>(std::move(stream), path, format);
}

} // namespace reprise::trace
