#include "core/trace/testing/packets.hh"

#include "core/base/address.hh"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::trace::test {
namespace {

std::uint8_t digit(char c) {
    return static_cast<std::uint8_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

Buffer address(const std::string& text) {
    const IpAddress parsed = IpAddress::parse(text).value();
    return {parsed.bytes.begin(), parsed.bytes.begin() + static_cast<int>(parsed.size())};
}

Buffer byte(unsigned value) { return {static_cast<std::uint8_t>(value)}; }

} // namespace

Buffer hex(std::string_view text) {
    std::string digits(text);
    std::erase(digits, ' ');
    Buffer out;
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
        out.push_back(static_cast<std::uint8_t>(digit(digits[i]) * 16 + digit(digits[i + 1])));
    }
    return out;
}

Buffer be16(unsigned value) {
    return {static_cast<std::uint8_t>(value >> 8U), static_cast<std::uint8_t>(value)};
}

Buffer be32(std::uint32_t value) {
    return {static_cast<std::uint8_t>(value >> 24U), static_cast<std::uint8_t>(value >> 16U),
            static_cast<std::uint8_t>(value >> 8U), static_cast<std::uint8_t>(value)};
}

Buffer little32(std::uint32_t value) {
    const Buffer big = be32(value);
    return {big.rbegin(), big.rend()};
}

Buffer dns(std::uint16_t id, bool response, const std::string& label) {
    static const Buffer kCounts = hex("0001 0000 0000 0000");
    static const Buffer kRest = hex("07 6578616d706c65 00 0001 0001");
    Buffer name = byte(static_cast<unsigned>(label.size()));
    name.insert(name.end(), label.begin(), label.end());
    return be32(std::uint32_t{id} << 16U | (response ? 0x8400U : 0U)) + kCounts + name + kRest;
}

Buffer prefixed(const Buffer& message) {
    return be16(static_cast<unsigned>(message.size())) + message;
}

Buffer udp(unsigned source_port, unsigned destination_port, const Buffer& payload) {
    return be32(source_port << 16U | destination_port) +
           be32((static_cast<std::uint32_t>(payload.size()) + 8) << 16U) + payload;
}

Buffer tcp(const Tcp& fields) {
    const auto flag = [&fields](char letter, unsigned bit) {
        return fields.flags.find(letter) == std::string::npos ? 0U : bit;
    };
    return be16(fields.source_port) + be16(fields.destination_port) + be32(fields.sequence) +
           be32(fields.acknowledgement) + byte(0x50) +
           byte(flag('F', 1) | flag('S', 2) | flag('R', 4) | flag('A', 16)) +
           hex("ffff 0000 0000") + fields.payload;
}

Buffer ipv4(const Buffer& payload, const Ip& fields, const Buffer& options) {
    const auto header = static_cast<unsigned>(20 + options.size());
    const auto size = (header + static_cast<unsigned>(payload.size())) & 0xffffU;
    return be32((0x40U | header / 4) << 24U | size) +
           be32(fields.id << 16U | (fields.more ? 0x2000U : 0U) | fields.offset / 8) +
           be32(64U << 24U | fields.protocol << 16U) + address(fields.source) +
           address(fields.destination) + options + payload;
}

Buffer ipv6(const Buffer& payload, const Ip& fields) {
    const bool fragment = fields.more || fields.offset != 0;
    const Buffer inner = fragment ? byte(fields.protocol) + byte(0) +
                                        be16(fields.offset | (fields.more ? 1U : 0U)) +
                                        be32(fields.id) + payload
                                  : payload;
    return hex("60000000") + be16(static_cast<unsigned>(inner.size())) +
           byte(fragment ? 44 : fields.protocol) + byte(64) + address(fields.source) +
           address(fields.destination) + inner;
}

Buffer ethernet(const Buffer& packet, const Buffer& tags) {
    return hex("020000000001 020000000002") + tags +
           be16(packet[0] >> 4U == 6 ? 0x86ddU : 0x0800U) + packet;
}

PcapFile::PcapFile(std::uint32_t link, bool nanoseconds, bool big_endian)
    : nanoseconds_(nanoseconds), big_endian_(big_endian) {
    put(nanoseconds ? 0xa1b23c4dU : 0xa1b2c3d4U);
    put(big_endian ? 0x00020004U : 0x00040002U);
    put(0);
    put(0);
    put(262'144);
    put(link);
}

void PcapFile::put(std::uint32_t value) {
    const Buffer out = be32(big_endian_ ? value : __builtin_bswap32(value));
    bytes_.insert(bytes_.end(), out.begin(), out.end());
}

void PcapFile::add(const Buffer& frame, std::int64_t time, std::uint32_t wire_length) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    put(static_cast<std::uint32_t>(time / 1'000'000'000));
    put(static_cast<std::uint32_t>(time % 1'000'000'000 / (nanoseconds_ ? 1 : 1'000)));
    put(size);
    put(wire_length == 0 ? size : wire_length);
    bytes_.insert(bytes_.end(), frame.begin(), frame.end());
}

Buffer PcapngFile::u16(unsigned value) const {
    Buffer out = be16(value);
    return big_endian_ ? out : Buffer{out.rbegin(), out.rend()};
}

Buffer PcapngFile::u32(std::uint32_t value) const {
    return big_endian_ ? be32(value) : little32(value);
}

void PcapngFile::block(std::uint32_t type, const Buffer& body) {
    Buffer padded = body;
    padded.resize((body.size() + 3) / 4 * 4);
    const Buffer size = u32(static_cast<std::uint32_t>(padded.size() + 12));
    bytes_ = std::move(bytes_) + u32(type) + size + padded + size;
}

void PcapngFile::section(bool big_endian) {
    big_endian_ = big_endian;
    block(0x0a0d0d0a, u32(0x1a2b3c4d) + u16(1) + u16(0) + u32(0xffffffff) + u32(0xffffffff));
}

void PcapngFile::interface(unsigned link, std::uint32_t snap_length, const Buffer& time) {
    Buffer options = time;
    if (big_endian_ && !time.empty()) { // code and length are numbers too
        std::swap(options[0], options[1]);
        std::swap(options[2], options[3]);
    }
    block(1, u16(link) + u16(0) + u32(snap_length) + options + u32(0));
}

void PcapngFile::packet(std::uint32_t interface, const Buffer& frame, std::uint64_t ticks,
                        std::uint32_t wire_length) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    block(6, u32(interface) + u32(static_cast<std::uint32_t>(ticks >> 32U)) +
                 u32(static_cast<std::uint32_t>(ticks)) + u32(size) +
                 u32(wire_length == 0 ? size : wire_length) + frame);
}

void PcapngFile::old_packet(unsigned interface, const Buffer& frame, std::uint64_t ticks) {
    const auto size = static_cast<std::uint32_t>(frame.size());
    block(2, u16(interface) + u16(0) + u32(static_cast<std::uint32_t>(ticks >> 32U)) +
                 u32(static_cast<std::uint32_t>(ticks)) + u32(size) + u32(size) + frame);
}

void PcapngFile::simple_packet(const Buffer& frame, std::uint32_t wire_length) {
    block(3,
          u32(wire_length == 0 ? static_cast<std::uint32_t>(frame.size()) : wire_length) + frame);
}

} // namespace reprise::trace::test

// NOLINTEND(bugprone-unchecked-optional-access)
