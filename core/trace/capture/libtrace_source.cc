// ERF. The only user of libtrace.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>
#include <libtrace.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::trace {
namespace {

constexpr std::uint64_t kHeaderSize = 16;

using OpenTrace = std::unique_ptr<libtrace_t, decltype([](auto* trace) { trace_destroy(trace); })>;
using OnePacket = std::unique_ptr<libtrace_packet_t,
                                  decltype([](auto* packet) { trace_destroy_packet(packet); })>;

/// ERF time is seconds in 32.32 fixed point, one unit 0.23 ns: rounding gives back every
/// nanosecond, cutting would not.
Nanoseconds from_erf(std::uint64_t erf) {
    const std::uint64_t fraction = (erf & 0xffffffffU) * 1'000'000'000U + (1ULL << 31U);
    return static_cast<Nanoseconds>(erf >> 32U) * kSecond +
           static_cast<Nanoseconds>(fraction >> 32U);
}

/// Whether libtrace can take a record: over one of a type that it does not know, or with a length
/// that has no room for what is in front of the frame, it crashes. Known are Ethernet (2 bytes of
/// padding before the frame) with its colored kinds, and raw IP.
bool fits(const std::uint8_t* record) {
    constexpr std::array<unsigned, 6> kTypes{2, 11, 16, 20, 22, 23};
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
    return std::ranges::find(kTypes, type & ~kMore) != kTypes.end() && before + 2 <= size;
}

class ErfSource final : public TraceSource {
public:
    ErfSource(OpenTrace trace, std::uint64_t size)
        : TraceSource("erf", nullptr, true), trace_(std::move(trace)),
          packet_(trace_create_packet()), size_(size) {}

    bool next(Packet& packet, Query& /*query*/) override {
        const int result = trace_read_packet(trace_.get(), packet_.get());
        if (result < 0) {
            note(trace_get_err(trace_.get()).problem);
        } else if (result > 0 && !fits(static_cast<const std::uint8_t*>(packet_->header))) {
            note("a broken record, or not of Ethernet");
        }
        return result > 0 && trouble_.empty() && show(packet);
    }

    [[nodiscard]] double share_read() const override {
        return size_ == 0 ? 0
                          : std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(size_));
    }

    [[nodiscard]] std::string description() const override { return "erf, libtrace"; }

private:
    bool show(Packet& packet) {
        libtrace_linktype_t type = TRACE_TYPE_UNKNOWN;
        std::uint32_t captured = 0;
        const auto* data = static_cast<const std::uint8_t*>(
            trace_get_packet_buffer(packet_.get(), &type, &captured));
        if (data == nullptr || (type != TRACE_TYPE_ETH && type != TRACE_TYPE_NONE)) {
            note("a packet of unknown link type");
            return false;
        }
        packet = {.link = type == TRACE_TYPE_ETH ? LinkType::kEthernet : LinkType::kRaw,
                  .time = from_erf(trace_get_erf_timestamp(packet_.get())),
                  .bytes = {data, captured},
                  .wire_length = static_cast<std::uint32_t>(trace_get_wire_length(packet_.get()))};
        ++items_;
        bytes_ += kHeaderSize + captured;
        return true;
    }

    void note(const char* what) {
        trouble_ = fmt::format("the trace is cut or corrupt after {} packets: {}", items_, what);
    }

    OpenTrace trace_;
    OnePacket packet_; // goes before its trace
    std::uint64_t bytes_ = 0;
    std::uint64_t size_; ///< of the file
};

} // namespace

std::unique_ptr<TraceSource> open_erf(const std::string& path) {
    OpenTrace trace(trace_create(("erf:" + path).c_str()));
    if (!trace || trace_is_err(trace.get()) || trace_start(trace.get()) != 0) {
        return nullptr;
    }
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    return std::make_unique<ErfSource>(std::move(trace), ignored ? 0 : size);
}

} // namespace reprise::trace
