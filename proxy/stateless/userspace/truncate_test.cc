#include "core/dns/message.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/testing/packets.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace reprise::proxy::stateless {
namespace {

using proxy::testing::Buffer;
using proxy::testing::checksums_hold;
using proxy::testing::make;

constexpr size_t kQuestionEnd = kDnsHeaderSize + 3 + 4; // "a." A IN

/// A reply of so many bytes: a question, a TXT record and, before or behind it, an OPT with an
/// option.
Buffer reply(size_t size, bool with_opt) {
    Buffer message{0, 7, 0x84, 0, 0, 1, 0, 1, 0, 0, 0, static_cast<std::uint8_t>(with_opt ? 1 : 0)};
    message.insert(message.end(), {1, 'a', 0, 0, 16, 0, 1});
    const Buffer opt{0, 0, 41, 4, 208, 0, 0, 128, 0, 0, 5, 0, 3, 0, 1, 'x'};
    const size_t rest = with_opt ? opt.size() : 0;
    message.insert(message.end(), {0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0});
    const size_t data = size - rest - message.size() - 2;
    message.insert(message.end(),
                   {static_cast<std::uint8_t>(data >> 8U), static_cast<std::uint8_t>(data)});
    message.resize(size - rest);
    if (with_opt) {
        message.insert(message.end(), opt.begin(), opt.end());
    }
    return message;
}

Buffer packet(const Buffer& message, std::string_view source, std::string_view destination) {
    return make({.source = source,
                 .destination = destination,
                 .source_port = 53,
                 .destination_port = 4'000,
                 .payload = message});
}

TEST(TruncateReply, LeavesHeaderQuestionAndOpt) {
    for (const auto& [source, destination] :
         {std::pair{"198.19.255.53", "192.0.2.1"}, {"2001:db8::53", "2001:db8::1"}}) {
        for (const bool with_opt : {false, true}) {
            Buffer whole = packet(reply(900, with_opt), source, destination);
            const size_t headers = whole.size() - 900;
            const std::span<std::uint8_t> left = truncate_reply(whole, 512);
            EXPECT_EQ(left.size(), headers + kQuestionEnd + (with_opt ? 16U : 0U));
            EXPECT_TRUE(checksums_hold(left));
            const Bytes message = left.subspan(headers);
            const auto header = parse_header(message);
            EXPECT_TRUE(header->truncated() && header->is_response());
            EXPECT_EQ(header->answers, 0);
            EXPECT_EQ(parse_question(message)->type, 16);
            EXPECT_EQ(parse_edns(message).has_value(), with_opt);
            EXPECT_EQ(message_end(message, message.size()), MessageEnd::kWhole);
        }
    }
}

/// A datagram in two fragments of IPv6, of which the first has `size` bytes of it.
std::pair<Buffer, Buffer> fragments(const Buffer& datagram, size_t size) {
    const auto end = datagram.begin() + 40 + static_cast<std::ptrdiff_t>(size);
    const auto fragment = [&](auto begin, auto until, unsigned field) {
        Buffer one(datagram.begin(), datagram.begin() + 40);
        one[6] = 44;
        one.insert(one.end(), {17, 0, static_cast<std::uint8_t>(field >> 8U),
                               static_cast<std::uint8_t>(field), 0, 0, 0, 1});
        one.insert(one.end(), begin, until);
        store16(&one[4], one.size() - 40);
        return one;
    };
    return {fragment(datagram.begin() + 40, end, 1),
            fragment(end, datagram.end(), static_cast<unsigned>(size))};
}

TEST(TruncateReply, OfFragmentsTheFirstBecomesThePacketAndTheOtherVanishes) {
    const Buffer message = reply(900, true);
    auto [first, later] = fragments(packet(message, "2001:db8::53", "2001:db8::1"), 800);
    const std::span<std::uint8_t> left = truncate_reply(first, 512);
    EXPECT_EQ(left.size(), 48 + kQuestionEnd);
    EXPECT_TRUE(checksums_hold(left));
    EXPECT_EQ(left[48 + 2] & 2, 2); // TC
    EXPECT_TRUE(truncate_reply(later, 512).empty());
    auto [begin, rest] = fragments(packet(message, "2001:db8::53", "2001:db8::1"), 800);
    EXPECT_EQ(truncate_reply(begin, 900).size(), begin.size());
    EXPECT_EQ(truncate_reply(rest, 900).size(), rest.size());
}

TEST(TruncateReply, OtherPacketsStay) {
    const auto stays = [](Buffer bytes) {
        const Buffer before = bytes;
        return truncate_reply(bytes, 512).size() == before.size() && bytes == before;
    };
    EXPECT_TRUE(stays(packet(reply(512, true), "192.0.2.53", "192.0.2.1")));
    EXPECT_TRUE(stays(packet(Buffer(600), "192.0.2.53", "192.0.2.1"))); // no question
    Buffer query = reply(600, true);
    query[2] &= 0x7f;
    EXPECT_TRUE(stays(packet(query, "192.0.2.53", "192.0.2.1")));
    EXPECT_TRUE(stays(make({.protocol = 6, .payload = Buffer(700)})));
    EXPECT_TRUE(stays(Buffer(3)));
}

} // namespace
} // namespace reprise::proxy::stateless
