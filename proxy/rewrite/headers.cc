#include "proxy/rewrite/headers.hh"

#include "core/base/bytes.hh"

#include <cstddef>
#include <cstdint>

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

/// Walks the extension headers of an IPv6 packet.
class Walk {
public:
    explicit Walk(Bytes packet) : packet_(packet) {
        headers_.v6 = true;
        headers_.protocol = packet[6];
        headers_.transport = kHeaderV6;
    }

    Headers run() {
        for (int count = 0; is_extension() && !headers_.later_fragment; ++count) {
            const bool misplaced = headers_.protocol == kHopByHop && count != 0;
            const Verdict fault =
                misplaced || count == kMaximumExtensions ? Verdict::kBadExtension : step();
            if (fault != Verdict::kPassed) {
                return faulty(fault);
            }
        }
        return headers_;
    }

private:
    [[nodiscard]] bool is_extension() const {
        const std::uint8_t kind = headers_.protocol;
        return kind == kHopByHop || kind == kRouting || kind == kFragment ||
               kind == kDestinationOptions;
    }

    Verdict step() {
        const Bytes rest = packet_.subspan(headers_.transport);
        if (rest.size() < 8) {
            return Verdict::kShort;
        }
        if (headers_.protocol == kFragment) {
            return fragment(rest);
        }
        const size_t length = (rest[1] + size_t{1}) * 8;
        // With segments left, the transport's checksum covers another destination.
        if (length > rest.size() || (headers_.protocol == kRouting && rest[3] != 0)) {
            return Verdict::kBadExtension;
        }
        advance(rest[0], length);
        return Verdict::kPassed;
    }

    Verdict fragment(Bytes rest) {
        const unsigned field = load16(&rest[2]);
        const size_t offset = field & 0xfff8U;
        const bool more = (field & 1U) != 0;
        if (seen_fragment_ || !plausible_fragment(offset, rest.size() - 8, more)) {
            return Verdict::kBadFragment;
        }
        seen_fragment_ = true;
        headers_.later_fragment = offset != 0;
        headers_.whole = offset == 0 && !more;
        advance(rest[0], 8);
        return Verdict::kPassed;
    }

    void advance(std::uint8_t next, size_t length) {
        headers_.protocol = next;
        headers_.transport = static_cast<std::uint16_t>(headers_.transport + length);
    }

    Bytes packet_;
    Headers headers_;
    bool seen_fragment_ = false;
};

Headers read_v6(Bytes packet) {
    if (packet.size() < kHeaderV6) {
        return faulty(Verdict::kShort);
    }
    if (load16(&packet[4]) + kHeaderV6 != packet.size() || packet.size() > kMaximumPacket) {
        return faulty(Verdict::kBadLength);
    }
    return Walk(packet).run();
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
