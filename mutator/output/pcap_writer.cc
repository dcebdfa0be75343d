#include "mutator/output/pcap_writer.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise::mutator {
namespace {

constexpr size_t kBufferSize = 256UL << 10U;

template <typename T> Bytes as_bytes(const T& value) {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

} // namespace

PcapWriter::PcapWriter(const std::string& path) : file_(path) {
    buffer_.reserve(kBufferSize);
    append(as_bytes(trace::PcapFileHeader{}));
}

void PcapWriter::write(Nanoseconds time, Bytes packet, std::uint32_t missing) {
    if (time < 0 || time / kSecond > trace::kLastPcapSecond) {
        throw Error(fmt::format("{}: a packet at {} ns lies outside pcap's years 1970 to 2106; "
                                "change the start time or the length",
                                file_.name(), time));
    }
    const auto size = static_cast<std::uint32_t>(packet.size());
    const trace::PcapPacketHeader header{static_cast<std::uint32_t>(time / kSecond),
                                         static_cast<std::uint32_t>(time % kSecond), size,
                                         size + missing};
    append(as_bytes(header));
    append(packet);
    ++packets_;
}

void PcapWriter::append(Bytes data) {
    if (buffer_.size() + data.size() > kBufferSize) {
        flush();
    }
    buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
}

void PcapWriter::flush() {
    file_.write(buffer_);
    buffer_.clear();
}

void PcapWriter::finish() {
    flush();
    file_.finish();
}

} // namespace reprise::mutator
