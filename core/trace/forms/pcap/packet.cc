#include "core/trace/forms/pcap/packet.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/error.hh"
#include "core/trace/reassembly/packet.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kUdpHeader = 8;
constexpr size_t kTcpHeader = 20;
constexpr size_t kMssOption = 4;
constexpr size_t kMaxLength = 65'535;
constexpr std::uint16_t kWindow = 65'535;

Bytes address_bytes(const IpAddress& address) { return {address.bytes.data(), address.size()}; }

void fill_ipv4(std::uint8_t* at, size_t total, std::uint8_t protocol) {
    at[0] = 0x45;
    store16(at + 2, total);
    at[6] = 0x40; // don't fragment, so an identification of 0 is right (RFC 6864)
    at[8] = kHopLimit;
    at[9] = protocol;
}

void fill_ipv6(std::uint8_t* at, size_t total, std::uint8_t protocol) {
    at[0] = 0x60;
    store16(at + 4, total - kIpv6Header);
    at[6] = protocol;
    at[7] = kHopLimit;
}

/// Sizes the packet, writes the IP header and copies the payload behind `transport_size` zero
/// bytes. Returns the offset of the transport header.
size_t start_packet(std::vector<std::uint8_t>& out, const IpAddress& from, const IpAddress& to,
                    std::uint8_t protocol, size_t transport_size, Bytes payload) {
    const size_t ip_size = from.is_v4() ? kIpv4Header : kIpv6Header;
    // IPv4's length field counts its header, IPv6's does not.
    const size_t most = kMaxLength - transport_size - (from.is_v4() ? kIpv4Header : 0);
    if (payload.size() > most) {
        throw Error("a payload of " + std::to_string(payload.size()) +
                    " bytes does not fit a packet; give at most " + std::to_string(most));
    }
    out.assign(ip_size + transport_size + payload.size(), 0);
    if (from.is_v4()) {
        fill_ipv4(out.data(), out.size(), protocol);
    } else {
        fill_ipv6(out.data(), out.size(), protocol);
    }
    std::uint8_t* addresses = out.data() + (from.is_v4() ? 12 : 8);
    std::memcpy(addresses, from.bytes.data(), from.size());
    std::memcpy(addresses + from.size(), to.bytes.data(), to.size());
    if (!payload.empty()) {
        std::memcpy(out.data() + ip_size + transport_size, payload.data(), payload.size());
    }
    return ip_size;
}

/// IPv4 header checksum; IPv6 has none.
void finish_ip(std::vector<std::uint8_t>& out, const IpAddress& from) {
    if (from.is_v4()) {
        Checksum sum;
        sum.add(Bytes(out).first(kIpv4Header));
        sum.store(out.data() + 10);
    }
}

/// Checksum over pseudo-header and transport part (RFC 768, RFC 9293, RFC 8200 section 8.1).
Checksum transport_checksum(const std::vector<std::uint8_t>& out, size_t at, const IpAddress& from,
                            const IpAddress& to, std::uint8_t protocol) {
    Checksum sum;
    sum.add(address_bytes(from));
    sum.add(address_bytes(to));
    sum.add(static_cast<std::uint16_t>(out.size() - at));
    sum.add(std::uint16_t{protocol});
    sum.add(Bytes(out).subspan(at));
    return sum;
}

void fill_tcp(std::uint8_t* at, const TcpPacket& segment, size_t header) {
    store16(at, segment.from.port);
    store16(at + 2, segment.to.port);
    store32(at + 4, segment.sequence);
    store32(at + 8, segment.acknowledgement);
    at[12] = static_cast<std::uint8_t>(header / 4 << 4U);
    at[13] = segment.flags;
    store16(at + 14, kWindow);
    if (header > kTcpHeader) {
        at[kTcpHeader] = 2; // maximum segment size, for an MTU of 1500
        at[kTcpHeader + 1] = kMssOption;
        store16(at + kTcpHeader + 2, segment.from.address.is_v4() ? 1460 : 1440);
    }
}

} // namespace

void build_udp(std::vector<std::uint8_t>& out, const Endpoint& from, const Endpoint& to,
               Bytes payload) {
    const size_t at =
        start_packet(out, from.address, to.address, kProtocolUdp, kUdpHeader, payload);
    std::uint8_t* udp = out.data() + at;
    store16(udp, from.port);
    store16(udp + 2, to.port);
    store16(udp + 4, kUdpHeader + payload.size());
    transport_checksum(out, at, from.address, to.address, kProtocolUdp).store_udp(udp + 6);
    finish_ip(out, from.address);
}

void build_tcp(std::vector<std::uint8_t>& out, const TcpPacket& segment) {
    const bool syn = (segment.flags & kTcpSyn) != 0;
    const size_t header = kTcpHeader + (syn ? kMssOption : 0);
    const IpAddress& from = segment.from.address;
    const IpAddress& to = segment.to.address;
    const size_t at = start_packet(out, from, to, kProtocolTcp, header, segment.payload);
    fill_tcp(out.data() + at, segment, header);
    transport_checksum(out, at, from, to, kProtocolTcp).store(out.data() + at + 16);
    finish_ip(out, from);
}

} // namespace reprise::trace
