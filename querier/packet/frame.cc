#include "querier/packet/frame.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <netinet/in.h>
#include <span>

namespace reprise::querier {
namespace {

constexpr std::uint16_t kEtherTypeV4 = 0x0800;
constexpr std::uint16_t kEtherTypeV6 = 0x86dd;
constexpr size_t kIpv4Header = 20;
constexpr size_t kIpv6Header = 40;
constexpr size_t kUdpHeader = 8;
constexpr std::uint8_t kHops = 64;
constexpr std::uint8_t kDontFragment = 0x40;

/// Offsets of fields that differ from frame to frame.
constexpr size_t kV4Size = 2;
constexpr size_t kV4Id = 4;
constexpr size_t kV4Checksum = 10;
constexpr size_t kV4SourceAt = 12;
constexpr size_t kV6Size = 4;
constexpr size_t kV6SourceAt = 8;
constexpr size_t kUdpSize = 4;
constexpr size_t kUdpChecksum = 6;

Bytes bytes_of(const IpAddress& address) { return {address.bytes.data(), address.size()}; }

} // namespace

FrameTemplate::FrameTemplate(const MacAddresses& macs, const Endpoint& server)
    : v4_(server.address.is_v4()) {
    std::ranges::copy(macs.next_hop, bytes_.begin());
    std::ranges::copy(macs.source, bytes_.begin() + 6);
    store16(&bytes_[12], v4_ ? kEtherTypeV4 : kEtherTypeV6);
    if (v4_) {
        begin_v4(server);
    } else {
        begin_v6(server);
    }
    store16(&bytes_[headers_ - kUdpHeader + 2], server.port);
    udp_sum_.add(bytes_of(server.address));
    udp_sum_.add(std::uint16_t{IPPROTO_UDP});
    udp_sum_.add(server.port);
}

void FrameTemplate::begin_v4(const Endpoint& server) {
    std::uint8_t* ip = &bytes_[kEthernetHeader];
    ip[0] = 0x45;
    ip[6] = kDontFragment;
    ip[8] = kHops;
    ip[9] = IPPROTO_UDP;
    std::memcpy(ip + 16, server.address.bytes.data(), 4);
    ip_sum_.add(Bytes(ip, kIpv4Header));
    headers_ = kEthernetHeader + kIpv4Header + kUdpHeader;
}

void FrameTemplate::begin_v6(const Endpoint& server) {
    std::uint8_t* ip = &bytes_[kEthernetHeader];
    ip[0] = 0x60;
    ip[6] = IPPROTO_UDP;
    ip[7] = kHops;
    std::memcpy(ip + 24, server.address.bytes.data(), 16);
    headers_ = kEthernetHeader + kIpv6Header + kUdpHeader;
}

void FrameTemplate::write_v4(std::uint8_t* ip, const Endpoint& source, std::uint16_t id,
                             std::uint16_t udp_size) const {
    const auto size = static_cast<std::uint16_t>(kIpv4Header + udp_size);
    store16(ip + kV4Size, size);
    store16(ip + kV4Id, id);
    std::memcpy(ip + kV4SourceAt, source.address.bytes.data(), 4);
    Checksum sum = ip_sum_;
    sum.add(bytes_of(source.address));
    sum.add(size);
    sum.add(id);
    sum.store(ip + kV4Checksum);
}

void FrameTemplate::write_v6(std::uint8_t* ip, const Endpoint& source, std::uint16_t udp_size) {
    store16(ip + kV6Size, udp_size);
    std::memcpy(ip + kV6SourceAt, source.address.bytes.data(), 16);
}

size_t FrameTemplate::write(std::span<std::uint8_t> out, const Endpoint& source, Bytes query,
                            std::uint16_t id) const {
    std::memcpy(out.data(), bytes_.data(), headers_);
    std::memcpy(out.data() + headers_, query.data(), query.size());
    const auto udp_size = static_cast<std::uint16_t>(kUdpHeader + query.size());
    if (v4_) {
        write_v4(out.data() + kEthernetHeader, source, id, udp_size);
    } else {
        write_v6(out.data() + kEthernetHeader, source, udp_size);
    }

    std::uint8_t* udp = out.data() + headers_ - kUdpHeader;
    store16(udp, source.port);
    store16(udp + kUdpSize, udp_size);
    Checksum sum = udp_sum_;
    sum.add(bytes_of(source.address));
    sum.add(source.port);
    sum.add(udp_size, 2); // in the pseudo-header and in UDP's own
    sum.add(query);
    sum.store_udp(udp + kUdpChecksum);
    return headers_ + query.size();
}

} // namespace reprise::querier
