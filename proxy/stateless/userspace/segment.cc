#include "proxy/stateless/userspace/segment.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/dns/message.hh"
#include "proxy/rewrite/headers.hh"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::proxy::stateless {

namespace {

constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kTcpHeader = 20;
constexpr size_t kMssOption = 4;
constexpr std::uint8_t kTtl = 255;
constexpr std::uint16_t kWindow = 65'535;

IpAddress address(const std::uint8_t* at, bool v6) {
    return v6 ? IpAddress::v6(at) : IpAddress::v4(at);
}

Checksum pseudo_header(Bytes addresses, std::uint8_t protocol, size_t length) {
    Checksum sum;
    sum.add(addresses);
    sum.add(protocol);
    sum.add(static_cast<std::uint16_t>(length));
    return sum;
}

/// The value of the MSS option, or 0.
std::uint16_t mss_of(Bytes options) {
    constexpr std::uint8_t kEnd = 0;
    constexpr std::uint8_t kNothing = 1;
    constexpr std::uint8_t kMss = 2;
    Cursor cursor(options);
    while (cursor.left() != 0) {
        const std::uint8_t kind = cursor.u8();
        if (kind == kEnd) {
            break;
        }
        if (kind == kNothing) {
            continue;
        }
        const std::uint8_t size = cursor.u8();
        if (kind == kMss && size == kMssOption) {
            return cursor.u16be();
        }
        cursor.skip(std::max<size_t>(size, 2) - 2);
    }
    return 0;
}

bool plausible(const Segment& segment) {
    const bool acks = segment.has(kAck);
    if (segment.has(kSyn)) {
        return !acks && !segment.has(kFin) && !segment.has(kRst);
    }
    return acks || segment.has(kRst);
}

size_t write_ip(std::span<std::uint8_t> out, const Reply& reply, size_t length, std::uint16_t id) {
    const IpAddress& from = reply.connection.server.address;
    const IpAddress& to = reply.connection.client.address;
    const bool v6 = from.is_v6();
    const size_t header = v6 ? kIpv6Header : kIpv4Header;
    std::ranges::fill(out.first(header), 0);
    if (v6) {
        out[0] = 0x60;
        store16(&out[4], length);
        out[6] = kTcp;
        out[7] = kTtl;
    } else {
        out[0] = 0x45;
        store16(&out[2], header + length);
        store16(&out[4], id);
        out[8] = kTtl;
        out[9] = kTcp;
    }
    std::uint8_t* const addresses = &out[v6 ? 8 : 12];
    std::copy_n(from.bytes.data(), from.size(), addresses);
    std::copy_n(to.bytes.data(), to.size(), addresses + from.size());
    if (!v6) {
        Checksum sum;
        sum.add(out.first(header));
        sum.store(&out[10]);
    }
    return header;
}

constexpr unsigned kSizeShift = 30;
constexpr std::uint16_t kDefaultMss = 536; // RFC 9293 section 3.7.1

using Sizes = std::array<std::uint16_t, 4>;
constexpr Sizes kSizesV4{kDefaultMss, 1'220, 1'380, 1'460};
constexpr Sizes kSizesV6{kDefaultMss, 1'220, 1'380, 1'440};

const Sizes& sizes(const IpAddress& address) { return address.is_v6() ? kSizesV6 : kSizesV4; }

} // namespace

std::uint8_t protocol_of(Bytes packet) {
    const Headers headers = read_headers(packet);
    return headers.fault == Verdict::kPassed ? headers.protocol : std::uint8_t{0};
}

std::optional<Segment> read_segment(Bytes packet) {
    const Headers headers = read_headers(packet);
    if (headers.fault != Verdict::kPassed || !headers.whole || headers.protocol != kTcp ||
        check_transport(packet, headers) != Verdict::kPassed) {
        return std::nullopt;
    }
    const Bytes tcp = packet.subspan(headers.transport);
    const size_t one = headers.address_size();
    Checksum sum = pseudo_header(packet.subspan(headers.addresses(), 2 * one), kTcp, tcp.size());
    sum.add(tcp);
    if (sum.value() != 0) {
        return std::nullopt;
    }
    const std::uint8_t* const from = &packet[headers.addresses()];
    Cursor cursor(tcp);
    Segment segment;
    segment.connection.client = {.address = address(from, headers.v6), .port = cursor.u16be()};
    segment.connection.server = {.address = address(from + one, headers.v6),
                                 .port = cursor.u16be()};
    segment.seq = cursor.u32be();
    segment.ack = cursor.u32be();
    const size_t header = (cursor.u8() >> 4U) * size_t{4};
    segment.flags = cursor.u8() & 0x3fU;
    segment.window = cursor.u16be();
    segment.mss = mss_of(tcp.subspan(kTcpHeader, header - kTcpHeader));
    segment.data = tcp.subspan(header);
    return plausible(segment) ? std::optional(segment) : std::nullopt;
}

size_t write_segment(std::span<std::uint8_t> out, const Reply& reply, std::uint16_t id) {
    const size_t header = kTcpHeader + (reply.mss != 0 ? kMssOption : 0);
    const size_t length = header + reply.data.size();
    const size_t begin = write_ip(out, reply, length, id);
    const std::span<std::uint8_t> tcp = out.subspan(begin, length);
    store16(&tcp[0], reply.connection.server.port);
    store16(&tcp[2], reply.connection.client.port);
    store32(&tcp[4], reply.seq);
    store32(&tcp[8], reply.ack);
    tcp[12] = static_cast<std::uint8_t>(header / 4 << 4U);
    tcp[13] = reply.flags;
    store16(&tcp[14], kWindow);
    store32(&tcp[16], 0); // checksum, urgent pointer
    if (reply.mss != 0) {
        store32(&tcp[kTcpHeader], 0x0204'0000U | reply.mss);
    }
    copy_bytes(reply.data, tcp.data() + header);
    const size_t addresses = 2 * reply.connection.server.address.size();
    Checksum sum = pseudo_header(out.subspan(begin - addresses, addresses), kTcp, length);
    sum.add(tcp);
    sum.store(&tcp[16]);
    return begin + length;
}

std::uint32_t SequenceNumbers::hash(const Connection& connection) const {
    std::array<std::uint8_t, 36> bytes{};
    auto at = std::ranges::copy(connection.client.address.bytes, bytes.begin()).out;
    std::ranges::copy(connection.server.address.bytes, at);
    store16(&bytes[32], connection.client.port);
    store16(&bytes[34], connection.server.port);
    return static_cast<std::uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), secret_)) >>
           (32U - kSizeShift);
}

std::uint32_t SequenceNumbers::first(const Connection& connection, std::uint16_t mss) const {
    const Sizes& known = sizes(connection.client.address);
    const std::uint16_t most =
        std::min<std::uint16_t>(mss == 0 ? kDefaultMss : mss, own_mss(connection.client.address));
    const auto above = std::ranges::upper_bound(known, most);
    const auto index =
        static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(above - known.begin(), 1));
    return (index - 1) << kSizeShift | hash(connection);
}

std::uint16_t SequenceNumbers::mss(const Connection& connection, std::uint32_t ack) const {
    const std::uint32_t distance = ack - 1 - hash(connection);
    return sizes(connection.client.address)[distance >> kSizeShift];
}

std::uint16_t SequenceNumbers::own_mss(const IpAddress& address) const {
    const size_t headers = kTcpHeader + (address.is_v6() ? kIpv6Header : kIpv4Header);
    return static_cast<std::uint16_t>(std::clamp<size_t>(most_, kDefaultMss + headers, 65'535) -
                                      headers);
}

namespace {

constexpr size_t kUdpHeader = 8;
constexpr size_t kFragmentHeader = 8;
constexpr size_t kOptRecord = 11; // without options
constexpr std::uint8_t kTruncated = 0x02;

/// The OPT record as it stands in the message; empty where there is none.
Bytes opt_of(Bytes message) {
    const auto edns = parse_edns(message);
    if (!edns) {
        return {};
    }
    const auto data = static_cast<size_t>(edns->options.data() - message.data());
    return message.subspan(data - kOptRecord, kOptRecord + edns->options.size());
}

void write_lengths(std::span<std::uint8_t> packet, const Headers& headers) {
    const std::span<std::uint8_t> udp = packet.subspan(headers.transport);
    store16(&udp[4], udp.size());
    store16(&udp[6], 0);
    Checksum sum = pseudo_header(packet.subspan(headers.addresses(), 2 * headers.address_size()),
                                 kUdp, udp.size());
    sum.add(udp);
    sum.store_udp(&udp[6]);
    if (headers.v6) {
        store16(&packet[4], packet.size() - kIpv6Header);
        return;
    }
    store16(&packet[2], packet.size());
    store16(&packet[10], 0);
    Checksum header;
    header.add(packet.first(headers.transport));
    header.store(&packet[10]);
}

/// Where a datagram's fragment ends, counted from the end of its UDP header.
size_t end_of_later(Bytes fragment, const Headers& headers) {
    const size_t offset = load16(&fragment[kIpv6Header + 2]) & 0xfff8U;
    return offset + fragment.size() - headers.transport - kUdpHeader;
}

/// The first fragment as a packet of its own, whose lengths are wrong still.
std::span<std::uint8_t> without_fragment_header(std::span<std::uint8_t> packet, Headers& headers) {
    std::ranges::copy_backward(packet.first(kIpv6Header), packet.first(headers.transport).end());
    headers.transport = kIpv6Header;
    packet[kFragmentHeader + 6] = kUdp;
    return packet.subspan(kFragmentHeader);
}

} // namespace

std::span<std::uint8_t> truncate_reply(std::span<std::uint8_t> packet, size_t limit) {
    Headers headers = read_headers(packet);
    const bool cut =
        headers.v6 && !headers.whole && headers.transport == kIpv6Header + kFragmentHeader;
    if (headers.fault != Verdict::kPassed || !(headers.whole || cut) || headers.protocol != kUdp ||
        check_transport(packet, headers) != Verdict::kPassed) {
        return packet;
    }
    if (headers.later_fragment) {
        return end_of_later(packet, headers) > limit ? packet.first(0) : packet;
    }
    const size_t size = load16(&packet[headers.transport + 4]) - kUdpHeader;
    const std::span<std::uint8_t> message = packet.subspan(headers.transport + kUdpHeader);
    const auto header = parse_header(message);
    const auto question = parse_question(message);
    if (size <= limit || !header || !question || !header->is_response() || header->questions != 1) {
        return packet;
    }
    if (cut) {
        packet = without_fragment_header(packet, headers);
    }
    const size_t end = kDnsHeaderSize + question->raw.size();
    const Bytes found = opt_of(message);
    const std::vector<std::uint8_t> opt(found.begin(), found.end());
    std::ranges::copy(opt, message.begin() + static_cast<std::ptrdiff_t>(end));
    message[2] |= kTruncated;
    store16(&message[6], 0); // answers, authorities, additionals
    store16(&message[8], 0);
    store16(&message[10], opt.empty() ? 0 : 1);
    const std::span<std::uint8_t> left =
        packet.first(headers.transport + kUdpHeader + end + opt.size());
    write_lengths(left, headers);
    return left;
}

} // namespace reprise::proxy::stateless
