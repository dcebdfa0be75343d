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

} // namespace

std::span<std::uint8_t> truncate_reply(std::span<std::uint8_t> packet, size_t limit) {
    const Headers headers = read_headers(packet);
    if (headers.fault != Verdict::kPassed || !headers.whole || headers.protocol != kUdp ||
        check_transport(packet, headers) != Verdict::kPassed) {
        return packet;
    }
    const size_t begin = headers.transport + kUdpHeader;
    const std::span<std::uint8_t> message = packet.subspan(begin);
    const auto header = parse_header(message);
    const auto question = parse_question(message);
    if (message.size() <= limit || !header || !question || !header->is_response() ||
        header->questions != 1) {
        return packet;
    }
    const size_t end = kDnsHeaderSize + question->raw.size();
    const Bytes found = opt_of(message);
    const std::vector<std::uint8_t> opt(found.begin(), found.end());
    std::ranges::copy(opt, message.begin() + static_cast<std::ptrdiff_t>(end));
    message[2] |= kTruncated;
    store16(&message[6], 0); // answers, authorities, additionals
    store16(&message[8], 0);
    store16(&message[10], opt.empty() ? 0 : 1);
    const std::span<std::uint8_t> left = packet.first(begin + end + opt.size());
    write_lengths(left, headers);
    return left;
}

} // namespace reprise::proxy::stateless
