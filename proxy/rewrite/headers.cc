#include "proxy/rewrite/headers.hh"

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace reprise::proxy {

namespace {

constexpr size_t kMinimumV4 = 20;
constexpr size_t kHeaderV6 = 40;
constexpr size_t kMaximumPacket = 65'535;

enum Extension : std::uint8_t { kHopByHop = 0, kRouting = 43, kFragment = 44 };

/// More than any stack sends; bounds the walk.
constexpr int kMaximumExtensions = 8;

Headers faulty(Verdict fault) { return {.fault = fault}; }

/// Whether a fragment of `size` bytes at `offset` can be part of an IP packet.
bool plausible_fragment(size_t offset, size_t size, bool more) {
    return size != 0 && offset + size <= kMaximumPacket && !(more && size % 8 != 0);
}

/// Loose and strict source routes: the address that the transport's checksum covers is then not the
/// header's destination.
bool is_source_route(std::uint8_t kind) { return kind == 131 || kind == 137; }

bool plausible_options(Bytes options) {
    for (size_t at = 0; at < options.size() && options[at] != 0;) {
        if (options[at] == 1) { // no operation: a single byte
            ++at;
            continue;
        }
        if (at + 1 >= options.size() || is_source_route(options[at])) {
            return false;
        }
        const size_t length = options[at + 1];
        if (length < 2 || length > options.size() - at) {
            return false;
        }
        at += length;
    }
    return true;
}

Headers read_v4(Bytes packet) {
    if (packet.size() < kMinimumV4) {
        return faulty(Verdict::kShort);
    }
    const size_t header = (packet[0] & 0x0fU) * size_t{4};
    if (header < kMinimumV4 || header > packet.size() || load16(&packet[2]) != packet.size()) {
        return faulty(Verdict::kBadLength);
    }
    if (!plausible_options(packet.subspan(kMinimumV4, header - kMinimumV4))) {
        return faulty(Verdict::kBadOption);
    }
    const unsigned field = load16(&packet[6]);
    const size_t offset = (field & 0x1fffU) * size_t{8};
    const bool more = (field & 0x2000U) != 0;
    const bool whole = offset == 0 && !more;
    if (!whole && !plausible_fragment(offset, packet.size() - header, more)) {
        return faulty(Verdict::kBadFragment);
    }
    return {.later_fragment = offset != 0,
            .whole = whole,
            .protocol = packet[9],
            .transport = static_cast<std::uint16_t>(header)};
}

bool is_extension(std::uint8_t protocol) {
    return protocol == kHopByHop || protocol == kRouting || protocol == kFragment ||
           protocol == kDestinationOptions;
}

/// The fragment header at the beginning of `rest`; false where it cannot be.
bool read_fragment(Bytes rest, Headers& headers) {
    const unsigned field = load16(&rest[2]);
    const size_t offset = field & 0xfff8U;
    const bool more = (field & 1U) != 0;
    headers.later_fragment = offset != 0;
    headers.whole = offset == 0 && !more;
    return plausible_fragment(offset, rest.size() - 8, more);
}

/// Goes behind the extension header at the beginning of `rest`.
Verdict skip_extension(Bytes rest, bool& fragment_seen, Headers& headers) {
    if (rest.size() < 8) {
        return Verdict::kShort;
    }
    const bool is_fragment = headers.protocol == kFragment;
    const size_t length = is_fragment ? 8 : (rest[1] + size_t{1}) * 8;
    if (is_fragment && (std::exchange(fragment_seen, true) || !read_fragment(rest, headers))) {
        return Verdict::kBadFragment;
    }
    // With segments left, the transport's checksum covers another destination.
    if (length > rest.size() || (headers.protocol == kRouting && rest[3] != 0)) {
        return Verdict::kBadExtension;
    }
    headers.protocol = rest[0];
    headers.transport = static_cast<std::uint16_t>(headers.transport + length);
    return Verdict::kPassed;
}

Headers read_v6(Bytes packet) {
    if (packet.size() < kHeaderV6) {
        return faulty(Verdict::kShort);
    }
    if (load16(&packet[4]) + kHeaderV6 != packet.size() || packet.size() > kMaximumPacket) {
        return faulty(Verdict::kBadLength);
    }
    Headers headers{.v6 = true, .protocol = packet[6], .transport = kHeaderV6};
    bool fragment_seen = false;
    for (int count = 0; is_extension(headers.protocol) && !headers.later_fragment; ++count) {
        if (count == kMaximumExtensions || (headers.protocol == kHopByHop && count != 0)) {
            return faulty(Verdict::kBadExtension);
        }
        const Verdict verdict =
            skip_extension(packet.subspan(headers.transport), fragment_seen, headers);
        if (verdict != Verdict::kPassed) {
            return faulty(verdict);
        }
    }
    return headers;
}

Verdict check_udp(Bytes header, const Headers& headers) {
    if (header.size() < 8) {
        return Verdict::kShort;
    }
    const size_t length = load16(&header[4]);
    const bool overruns = headers.whole && length > header.size();
    const bool no_checksum =
        headers.v6 && load16(&header[6]) == 0; // allowed in IPv4 only (RFC 8200)
    return length < 8 || overruns || no_checksum ? Verdict::kBadTransport : Verdict::kPassed;
}

Verdict check_tcp(Bytes header) {
    if (header.size() < 20) {
        return Verdict::kShort; // fragments that split the header too (RFC 1858)
    }
    const size_t length = (header[12] >> 4U) * size_t{4};
    return length < 20 || length > header.size() ? Verdict::kBadTransport : Verdict::kPassed;
}

} // namespace

Headers read_headers(Bytes packet) {
    if (packet.empty()) {
        return faulty(Verdict::kShort);
    }
    const unsigned version = packet[0] >> 4U;
    if (version == 4) {
        return read_v4(packet);
    }
    return version == 6 ? read_v6(packet) : faulty(Verdict::kBadVersion);
}

Verdict check_transport(Bytes packet, const Headers& headers) {
    if (headers.later_fragment) {
        return Verdict::kPassed;
    }
    const Bytes header = packet.subspan(headers.transport);
    if (headers.protocol == kUdp) {
        return check_udp(header, headers);
    }
    return headers.protocol == kTcp ? check_tcp(header) : Verdict::kPassed;
}

} // namespace reprise::proxy
