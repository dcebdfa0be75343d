#include "core/trace/forms/pcap/checksum.hh"

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::mutator {

void Checksum::add(Bytes piece) {
    size_t i = 0;
    for (; i + 4 <= piece.size(); i += 4) {
        sum_ += (std::uint32_t{piece[i]} << 24U) | (std::uint32_t{piece[i + 1]} << 16U) |
                (std::uint32_t{piece[i + 2]} << 8U) | piece[i + 3];
    }
    for (; i < piece.size(); ++i) {
        sum_ += i % 2 == 0 ? std::uint32_t{piece[i]} << 8U : piece[i];
    }
}

std::uint16_t Checksum::value() const {
    std::uint64_t sum = sum_;
    while (sum > 0xffff) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(~sum);
}

} // namespace reprise::mutator
