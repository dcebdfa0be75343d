#include "core/dns/name.hh"
#include "mutator/digests/digests.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::mutator {
namespace {

using namespace std::string_view_literals;

using Message = std::vector<std::uint8_t>;

void append(Message& out, std::string_view text) {
    out.insert(out.end(), text.begin(), text.end());
}

constexpr auto kName = "\3www\7example\3com\0"sv;
constexpr auto kOther = "\3ftp\7example\3com\0"sv;
constexpr auto kUpper = "\3WWW\7Example\3Com\0"sv;
constexpr size_t kBehindWww = 16; ///< where "example.com" is

/// Records are owner, type, class, TTL, size and data.
Message message(std::string_view name, const std::vector<std::string_view>& records,
                unsigned flags = 0x8400, unsigned dns_class = 1) {
    Message out;
    for (const size_t field :
         {size_t{7}, size_t{flags}, size_t{1}, size_t{0}, records.size(), size_t{0}}) {
        append16(out, field);
    }
    append(out, name);
    append16(out, 1);
    append16(out, dns_class);
    for (const std::string_view record : records) {
        append(out, record);
    }
    return out;
}

constexpr auto kNs1 = "\xc0\x10\0\2\0\1\0\0\0\x3c\0\6\3ns1\xc0\x10"sv;
constexpr auto kNs2 = "\xc0\x10\0\2\0\1\0\0\0\x3c\0\6\3ns2\xc0\x10"sv;
constexpr auto kNs1Plain = "\7EXAMPLE\3com\0\0\2\0\1\0\0\0\x3c\0\x11\3ns1\7example\3com\0"sv;
constexpr auto kNs1Later = "\xc0\x10\0\2\0\1\0\0\0\x3d\0\6\3ns1\xc0\x10"sv;
constexpr auto kOwn = "\xc0\x0c\0\2\0\1\0\0\0\x3c\0\6\3ns1\xc0\x10"sv;
static_assert(kName[kBehindWww - 12] == 7);

Contents::Numbers content(const Message& reply, std::string_view asked = kName, unsigned labels = 2,
                          unsigned dns_class = 1) {
    Contents contents({.origin = parse_name("com").value_or(Name()), .labels = labels});
    return contents.of(message(asked, {}, 0, dns_class), reply);
}

TEST(Contents, OrderCaseAndCompressionDoNotCount) {
    const auto known = content(message(kName, {kNs1, kNs2}));
    EXPECT_EQ(content(message(kName, {kNs2, kNs1})), known);
    EXPECT_EQ(content(message(kName, {kNs1Plain, kNs2})), known);
    EXPECT_EQ(content(message(kUpper, {kNs1, kNs2})), known);
    EXPECT_EQ(content(message(kName, {kNs1, kNs2}), kUpper), known);
}

TEST(Contents, WhatIsSaidCounts) {
    const auto known = content(message(kName, {kNs1}));
    EXPECT_NE(content(message(kName, {kNs2})), known);
    EXPECT_NE(content(message(kName, {kNs1, kNs1})), known);
    EXPECT_NE(content(message(kName, {kNs1Later})), known);
    EXPECT_NE(content(message(kName, {kNs1}, 0x8000)), known);
    Message moved = message(kName, {kNs1});
    store16(moved.data() + 6, 1); // to the answers
    store16(moved.data() + 8, 0);
    EXPECT_NE(content(moved), known);
    EXPECT_NE(content(message(kName, {kNs1})).place, 0U);
}

TEST(Contents, OfTheNameItsPlaceCounts) {
    EXPECT_EQ(content(message(kOther, {kNs1}), kOther), content(message(kName, {kNs1})));
    EXPECT_NE(content(message(kOther, {kNs1}), kOther, 3),
              content(message(kName, {kNs1}), kName, 3));
    // It owns a record, lies outside of the zone, or is of another class.
    EXPECT_NE(content(message(kOther, {kOwn}), kOther), content(message(kName, {kOwn})));
    constexpr auto kOutside = "\1a\3net\0"sv;
    constexpr auto kBeside = "\1b\3net\0"sv;
    EXPECT_NE(content(message(kOutside, {}), kOutside, 1),
              content(message(kBeside, {}), kBeside, 1));
    EXPECT_NE(content(message(kOther, {kNs1}, 0x8400, 3), kOther, 2, 3),
              content(message(kName, {kNs1}, 0x8400, 3), kName, 2, 3));
}

TEST(Contents, WhatIsNotWholeCountsByItsBytes) {
    const Message whole = message(kName, {kNs1});
    for (size_t size = 2; size < whole.size(); ++size) {
        const Message cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_EQ(content(cut), Contents::Numbers{.content = message_hash(cut)}) << size;
    }
    EXPECT_EQ(content(message(kOther, {kNs1})).content, message_hash(message(kOther, {kNs1})));
    constexpr auto kLoop = "\xc0\x21\0\2\0\1\0\0\0\x3c\0\2\xc0\x21"sv;
    EXPECT_EQ(content(message(kName, {kLoop})).content, message_hash(message(kName, {kLoop})));
}

} // namespace
} // namespace reprise::mutator
