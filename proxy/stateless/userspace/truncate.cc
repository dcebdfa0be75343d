#include "proxy/stateless/userspace/truncate.hh"

#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/dns/message.hh"
#include "proxy/rewrite/headers.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::proxy::stateless {

namespace {

constexpr size_t kBehindV6Length = 40; // IPv6 counts what is behind its header
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
    Checksum sum;
    sum.add(packet.subspan(headers.addresses(), 2 * headers.address_size()));
    sum.add(kUdp);
    sum.add(static_cast<std::uint16_t>(udp.size()));
    sum.add(udp);
    sum.store_udp(&udp[6]);
    if (headers.v6) {
        store16(&packet[4], packet.size() - kBehindV6Length);
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
    const size_t offset = load16(&fragment[kBehindV6Length + 2]) & 0xfff8U;
    return offset + fragment.size() - headers.transport - kUdpHeader;
}

/// The first fragment as a packet of its own, whose lengths are wrong still.
std::span<std::uint8_t> without_fragment_header(std::span<std::uint8_t> packet, Headers& headers) {
    std::ranges::copy_backward(packet.first(kBehindV6Length),
                               packet.first(headers.transport).end());
    headers.transport = kBehindV6Length;
    packet[kFragmentHeader + 6] = kUdp;
    return packet.subspan(kFragmentHeader);
}

} // namespace

std::span<std::uint8_t> truncate_reply(std::span<std::uint8_t> packet, size_t limit) {
    Headers headers = read_headers(packet);
    const bool cut =
        headers.v6 && !headers.whole && headers.transport == kBehindV6Length + kFragmentHeader;
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
