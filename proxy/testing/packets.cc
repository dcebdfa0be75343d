#include "proxy/testing/packets.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::proxy::testing {

namespace {

void put16(Buffer& out, size_t at, unsigned value) {
    out[at] = static_cast<std::uint8_t>(value >> 8U);
    out[at + 1] = static_cast<std::uint8_t>(value & 0xffU);
}

void append(Buffer& out, Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

/// RFC 1071 over a copy, the plain way: 0xffff where the data holds a right checksum.
unsigned sum_of(const Buffer& data) {
    std::uint64_t sum = 0;
    for (size_t i = 0; i < data.size(); ++i) {
        sum += i % 2 == 0 ? std::uint64_t{data[i]} << 8U : data[i];
    }
    while (sum > 0xffff) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return static_cast<unsigned>(sum);
}

size_t address_size(Bytes packet) { return packet[0] >> 4U == 4 ? 4 : 16; }

size_t source_at(Bytes packet) { return packet[0] >> 4U == 4 ? 12 : 8; }

/// The pseudo-header of RFC 768, RFC 9293 and RFC 8200, followed by the segment.
Buffer with_pseudo_header(Bytes packet, std::uint8_t protocol, size_t transport) {
    Buffer out;
    append(out, packet.subspan(source_at(packet), 2 * address_size(packet)));
    const size_t length = packet.size() - transport;
    out.insert(out.end(), {0, protocol, static_cast<std::uint8_t>(length >> 8U),
                           static_cast<std::uint8_t>(length & 0xffU)});
    append(out, packet.subspan(transport));
    return out;
}

Buffer transport(const Recipe& recipe) {
    Buffer out(recipe.protocol == 6 ? 20 : 8);
    put16(out, 0, recipe.source_port);
    put16(out, 2, recipe.destination_port);
    if (recipe.protocol == 6) {
        put16(out, 4, recipe.seq >> 16U);
        put16(out, 6, recipe.seq & 0xffffU);
        put16(out, 8, recipe.ack >> 16U);
        put16(out, 10, recipe.ack & 0xffffU);
        out[12] = static_cast<std::uint8_t>((20 + recipe.tcp_options.size()) / 4 << 4U);
        out[13] = recipe.tcp_flags;
        put16(out, 14, recipe.window);
        append(out, recipe.tcp_options);
    } else {
        put16(out, 4, static_cast<unsigned>(8 + recipe.payload.size()));
    }
    append(out, recipe.payload);
    return out;
}

Buffer ip_header(const Recipe& recipe, size_t payload) {
    const IpAddress from = address(recipe.source);
    const IpAddress to = address(recipe.destination);
    Buffer out;
    if (from.is_v4()) {
        out = {0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, recipe.protocol, 0, 0};
        out[0] = static_cast<std::uint8_t>(0x40U | ((20 + recipe.options.size()) / 4));
        put16(out, 2, static_cast<unsigned>(20 + recipe.options.size() + payload));
    } else {
        const std::uint8_t next = recipe.options.empty() ? recipe.protocol : recipe.next;
        out = {0x60, 0, 0, 0, 0, 0, next, 64};
        put16(out, 4, static_cast<unsigned>(recipe.options.size() + payload));
    }
    append(out, Bytes(from.bytes).first(from.size()));
    append(out, Bytes(to.bytes).first(to.size()));
    append(out, recipe.options);
    return out;
}

void seal_v4(Buffer& packet, size_t header) {
    put16(packet, 10, 0);
    put16(packet, 10,
          ~sum_of(Buffer(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(header))) &
              0xffffU);
}

/// Where the transport header of an unfragmented packet is, and its protocol.
struct Place {
    size_t at;
    std::uint8_t protocol;
};

Place place_of(Bytes packet) {
    if (packet[0] >> 4U == 4) {
        return {.at = (packet[0] & 15U) * size_t{4}, .protocol = packet[9]};
    }
    Place place{.at = 40, .protocol = packet[6]};
    while (place.protocol != 6 && place.protocol != 17) {
        const size_t length = place.protocol == 44 ? 8 : (packet[place.at + 1] + size_t{1}) * 8;
        place.protocol = packet[place.at];
        place.at += length;
    }
    return place;
}

} // namespace

Buffer make(const Recipe& recipe) {
    const Buffer segment = transport(recipe);
    Buffer out = ip_header(recipe, segment.size());
    const size_t at = out.size();
    append(out, segment);
    const size_t field = at + (recipe.protocol == 6 ? 16 : 6);
    if (recipe.checksum) {
        const unsigned value = ~sum_of(with_pseudo_header(out, recipe.protocol, at)) & 0xffffU;
        put16(out, field, value == 0 && recipe.protocol == 17 ? 0xffff : value);
    }
    if (out[0] >> 4U == 4) {
        seal_v4(out, at);
    }
    return out;
}

bool checksums_hold(Bytes packet) {
    const Place place = place_of(packet);
    const bool v4 = packet[0] >> 4U == 4;
    if (v4 && sum_of(Buffer(packet.begin(),
                            packet.begin() + static_cast<std::ptrdiff_t>(place.at))) != 0xffff) {
        return false;
    }
    const bool none =
        v4 && place.protocol == 17 && packet[place.at + 6] == 0 && packet[place.at + 7] == 0;
    return none || sum_of(with_pseudo_header(packet, place.protocol, place.at)) == 0xffff;
}

std::vector<Buffer> fragment_v4(const Buffer& packet, size_t size) {
    std::vector<Buffer> out;
    for (size_t at = 20; at < packet.size(); at += size) {
        const size_t end = std::min(at + size, packet.size());
        Buffer piece(packet.begin(), packet.begin() + 20);
        piece.insert(piece.end(), packet.begin() + static_cast<std::ptrdiff_t>(at),
                     packet.begin() + static_cast<std::ptrdiff_t>(end));
        put16(piece, 2, static_cast<unsigned>(piece.size()));
        put16(piece, 6, static_cast<unsigned>((at - 20) / 8 | (end < packet.size() ? 0x2000 : 0)));
        seal_v4(piece, 20);
        out.push_back(piece);
    }
    return out;
}

Buffer join_v4(const std::vector<Buffer>& fragments) {
    Buffer out(fragments.front().begin(), fragments.front().begin() + 20);
    for (const Buffer& each : fragments) {
        out.insert(out.end(), each.begin() + 20, each.end());
    }
    put16(out, 2, static_cast<unsigned>(out.size()));
    put16(out, 6, 0);
    seal_v4(out, 20);
    return out;
}

IpAddress address(std::string_view text) {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
    return IpAddress::parse(text).value();
}

IpAddress numbered(std::uint32_t number) {
    const Buffer four{192, static_cast<std::uint8_t>(number >> 16U),
                      static_cast<std::uint8_t>(number >> 8U), static_cast<std::uint8_t>(number)};
    return IpAddress::v4(four.data());
}

IpAddress source_of(Bytes packet) {
    const std::uint8_t* const at = packet.data() + source_at(packet);
    return address_size(packet) == 4 ? IpAddress::v4(at) : IpAddress::v6(at);
}

} // namespace reprise::proxy::testing
