// C-DNS files made here, whole and broken. Real ones: foreign_data_test.cc.
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/testing/cbor.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/packets.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::int64_t kEarliest = 1'475'762'151;

/// What a block of the tests is made of; each test changes what it is about.
struct Parts {
    Buffer earliest = cbor_array({cbor(kEarliest), cbor(500)});
    Buffer addresses = cbor_array({cbor_bytes(hex("c0000201")), cbor_bytes(hex("c6336401"))});
    Buffer class_types = cbor_array({cbor_map({{0, cbor(28)}, {1, cbor(1)}})});
    // www.example., options (NSID), data of a record, "a."
    Buffer names =
        cbor_array({cbor_bytes(hex("03 777777 07 6578616d706c65 00")), cbor_bytes(hex("0003 0000")),
                    cbor_bytes(hex("0a0b")), cbor_bytes(hex("01 61 00"))});
    Buffer signatures = cbor_array({cbor_map({{0, cbor(1)},      // server address
                                              {1, cbor(53)},     // port
                                              {2, cbor(0)},      // IPv4, UDP
                                              {4, cbor(7)},      // query, response, query's OPT
                                              {5, cbor(0)},      // opcode
                                              {6, cbor(0x1090)}, // RD, DO; RD of the response
                                              {7, cbor(0)},      // rcode
                                              {8, cbor(0)},      // class and type
                                              {13, cbor(0)},     // EDNS version
                                              {14, cbor(1'232)},
                                              {15, cbor(1)}, // options
                                              {16, cbor(3)}})});
    Buffer more_tables;  ///< pairs of the tables' map
    unsigned tables = 4; ///< and their number
    Buffer items = cbor_array({cbor_map({{0, cbor(250)},
                                         {1, cbor(0)},
                                         {2, cbor(4'000)},
                                         {3, cbor(7)},
                                         {4, cbor(0)},
                                         {6, cbor(20)},
                                         {7, cbor(0)},
                                         {8, cbor(44)}})});
    Buffer malformed = cbor_array({});

    [[nodiscard]] Buffer block() const {
        const Buffer known =
            cbor(0) + addresses + cbor(1) + class_types + cbor(2) + names + cbor(3) + signatures;
        return cbor_map({{0, cbor_map({{0, earliest}, {1, cbor(0)}})},
                         {2, cbor_head(5, tables) + known + more_tables},
                         {3, items},
                         {5, malformed}});
    }
};

Buffer preamble(std::int64_t major = 1, std::int64_t ticks = 1'000) {
    return cbor_map(
        {{0, cbor(major)},
         {1, cbor(0)},
         {3, cbor_array({cbor_map({{0, cbor_map({{0, cbor(ticks)}, {1, cbor(5'000)}})}})})}});
}

Buffer file_of(const Parts& parts, const Buffer& head = preamble()) {
    return cbor_array({cbor_text("C-DNS"), head, cbor_array({parts.block()})});
}

/// id 7, RD, www.example. AAAA IN, OPT of 1232 bytes with DO and NSID.
const char* const kQuery = "0007 0100 0001 0000 0000 0001 03777777076578616d706c6500 001c 0001"
                           "00 0029 04d0 00008000 0004 00030000";

TEST(Cdns, IsKnownByItsFirstItem) {
    EXPECT_TRUE(kCdnsForm.fits(file_of({})));
    EXPECT_TRUE(kCdnsForm.fits(hex("9f 65 432d444e53")));
    EXPECT_FALSE(kCdnsForm.fits(hex("83 65 432d444e")));
    EXPECT_FALSE(kCdnsForm.fits(hex("82 65 432d444e53")));
}

TEST(Cdns, AQueryAndItsResponseAreRebuilt) {
    const auto trace = read_trace(file_of({}));
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.description, "C-DNS");
    EXPECT_EQ(trace.packets, 1U);
    EXPECT_TRUE(trace.counters.empty());
    ASSERT_EQ(trace.messages.size(), 2U);
    const ReadMessage& query = trace.messages[0];
    EXPECT_EQ(query.bytes, hex(kQuery));
    EXPECT_EQ(query.time, kEarliest * kSecond + 750 * kMillisecond);
    EXPECT_EQ(query.source, "192.0.2.1:4000");
    EXPECT_EQ(query.destination, "198.51.100.1:53");
    EXPECT_EQ(query.transport, Transport::kUdp);
    const ReadMessage& response = trace.messages[1];
    EXPECT_TRUE(response.response);
    EXPECT_EQ(response.bytes,
              hex("0007 8103 0001 0000 0000 0000 03777777076578616d706c6500 001c 0001"));
    EXPECT_EQ(response.time, kEarliest * kSecond + 770 * kMillisecond);
    EXPECT_EQ(response.source, "198.51.100.1:53");
}

TEST(Cdns, IndefiniteLengthsAreReadAlike) {
    Parts parts;
    const Buffer block = parts.block();
    const Buffer file =
        hex("9f") + cbor_text("C-DNS") + preamble() + hex("9f") + block + block + hex("ff ff");
    const auto trace = read_trace(file);
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.messages.size(), 4U);
}

TEST(Cdns, WhatFollowsTheEndIsTold) {
    const Buffer open =
        hex("9f") + cbor_text("C-DNS") + preamble() + hex("9f") + Parts{}.block() + hex("ff");
    for (const Buffer& file : {file_of({}) + file_of({}), file_of({}) + hex("00"),
                               open + hex("ff 00"), open + hex("00 ff")}) {
        const auto trace = read_trace(file);
        EXPECT_EQ(trace.messages.size(), 2U);
        EXPECT_THAT(trace.trouble, HasSubstr("something follows the trace's end"));
    }
    EXPECT_THAT(read_trace(open).trouble, HasSubstr("the file ends within a container"));
}

TEST(Cdns, WhatTheFileDoesNotHoldHasDefaultsAndCounters) {
    Parts parts;
    parts.items = cbor_array({cbor_map({{7, cbor(0)}})});
    const auto trace = read_trace(file_of(parts));
    ASSERT_EQ(trace.messages.size(), 1U);
    EXPECT_EQ(trace.messages[0].bytes,
              hex("0000 0000 0001 0000 0000 0000 03777777076578616d706c6500 0001 0001"));
    EXPECT_EQ(trace.messages[0].source, "0.0.0.0:0");
    EXPECT_EQ(trace.messages[0].destination, "192.0.2.53:53");
    EXPECT_EQ(trace.messages[0].time, kEarliest * kSecond + 500 * kMillisecond);
    EXPECT_THAT(trace.counters, ElementsAre(Pair("cdns_no_destination", 1), Pair("cdns_no_id", 1),
                                            Pair("cdns_no_source", 1), Pair("cdns_no_time", 1),
                                            Pair("cdns_no_type", 1)));
}

TEST(Cdns, AddressPrefixesAreFilledUpAndTransportsKept) {
    Parts parts;
    parts.addresses = cbor_array({cbor_bytes(hex("20010db8")), cbor_bytes({})});
    parts.signatures = cbor_array(
        {cbor_map({{0, cbor(1)}, {2, cbor(3)}, {4, cbor(1)}, {8, cbor(0)}}),   // IPv6, TCP
         cbor_map({{0, cbor(1)}, {2, cbor(5)}, {4, cbor(1)}, {8, cbor(0)}}),   // IPv6, TLS
         cbor_map({{0, cbor(1)}, {2, cbor(8)}, {4, cbor(1)}, {8, cbor(0)}}),   // IPv4, HTTPS
         cbor_map({{0, cbor(1)}, {2, cbor(6)}, {4, cbor(1)}, {8, cbor(0)}})}); // IPv4, DTLS
    parts.items = hex("84");
    for (int i = 0; i < 4; ++i) {
        parts.items =
            std::move(parts.items) +
            cbor_map({{0, cbor(i)}, {1, cbor(0)}, {3, cbor(i)}, {4, cbor(i)}, {7, cbor(0)}});
    }
    const auto trace = read_trace(file_of(parts));
    ASSERT_EQ(trace.messages.size(), 4U);
    EXPECT_EQ(trace.messages[0].source, "[2001:db8::]:0");
    EXPECT_EQ(trace.messages[0].destination, "[::]:53");
    EXPECT_EQ(trace.messages[0].transport, Transport::kTcp);
    EXPECT_EQ(trace.messages[1].transport, Transport::kTls);
    EXPECT_EQ(trace.messages[2].transport, Transport::kHttps);
    EXPECT_EQ(trace.messages[2].source, "32.1.13.184:0");
    EXPECT_EQ(trace.messages[3].transport, Transport::kUdp);
    EXPECT_EQ(trace.counters.at("cdns_other_transport"), 1U);
}

TEST(Cdns, MoreQuestionsAndRecordsAreRebuilt) {
    Parts parts;
    parts.tables = 8;
    parts.more_tables =
        cbor(4) + cbor_array({cbor_array({cbor(0)})}) + // lists of questions
        cbor(5) + cbor_array({cbor_map({{0, cbor(3)}, {1, cbor(0)}})}) + cbor(6) +
        cbor_array({cbor_array({cbor(0)})}) + cbor(7) +
        cbor_array({cbor_map({{0, cbor(3)}, {1, cbor(0)}, {2, cbor(60)}, {3, cbor(2)}})});
    parts.items =
        cbor_array({cbor_map({{3, cbor(7)},
                              {4, cbor(0)},
                              {7, cbor(0)},
                              {11, cbor_map({{0, cbor(0)}, {1, cbor(0)}, {3, cbor(0)}})}})});
    const auto trace = read_trace(file_of(parts));
    ASSERT_EQ(trace.messages.size(), 2U);
    EXPECT_EQ(trace.messages[0].bytes,
              hex("0007 0100 0002 0001 0000 0002 03777777076578616d706c6500 001c 0001"
                  "0161 00 001c 0001"
                  "0161 00 001c 0001 0000003c 0002 0a0b"
                  "00 0029 04d0 00008000 0004 00030000"
                  "0161 00 001c 0001 0000003c 0002 0a0b"));
}

TEST(Cdns, MessagesComeByTimeWithinABlock) {
    Parts parts;
    const auto item = [](std::int64_t time, std::int64_t id, std::int64_t delay) {
        return cbor_map(
            {{0, cbor(time)}, {3, cbor(id)}, {4, cbor(0)}, {6, cbor(delay)}, {7, cbor(0)}});
    };
    parts.items = cbor_array({item(30, 1, 5), item(10, 2, 40), item(20, 3, -1)});
    const auto trace = read_trace(file_of(parts));
    std::vector<unsigned> ids;
    std::ranges::transform(trace.messages, std::back_inserter(ids), [](const ReadMessage& message) {
        return message.bytes[1] + (message.response ? 100U : 0U);
    });
    EXPECT_THAT(ids, ElementsAre(2, 103, 3, 1, 101, 102));
}

TEST(Cdns, MalformedMessagesKeepTheirBytes) {
    Parts parts;
    parts.items = cbor_array({});
    parts.tables = 5;
    parts.more_tables =
        cbor(8) + cbor_array({cbor_map({{0, cbor(1)},
                                        {1, cbor(5'353)},
                                        {2, cbor(2)},
                                        {3, cbor_bytes(hex("0001 0100 ffff ffff ffff ffff 99"))}}),
                              cbor_map({{3, cbor_bytes(hex("0001"))}})});
    parts.malformed =
        cbor_array({cbor_map({{0, cbor(1)}, {1, cbor(0)}, {2, cbor(9)}, {3, cbor(0)}}),
                    cbor_map({{3, cbor(1)}}), cbor_map({{3, cbor(2)}})});
    const auto trace = read_trace(file_of(parts));
    ASSERT_EQ(trace.messages.size(), 1U);
    EXPECT_EQ(trace.messages[0].bytes, hex("0001 0100 ffff ffff ffff ffff 99"));
    EXPECT_EQ(trace.messages[0].source, "192.0.2.1:9");
    EXPECT_EQ(trace.messages[0].destination, "198.51.100.1:5353");
    EXPECT_EQ(trace.messages[0].transport, Transport::kTcp);
    EXPECT_THAT(trace.counters, ElementsAre(Pair("cdns_bad_index", 1), Pair("cdns_malformed", 1),
                                            Pair("short_message", 1)));
}

TEST(Cdns, BadItemsAreCountedAndPassedOver) {
    Parts parts;
    const auto good = cbor_map({{3, cbor(7)}, {4, cbor(0)}, {7, cbor(0)}, {8, cbor(45)}});
    parts.items =
        cbor_array({good, cbor_map({{4, cbor(9)}, {7, cbor(0)}}),              // no such signature
                    cbor_map({{4, cbor(0)}, {7, cbor(-1)}}),                   // no such name
                    cbor_map({{4, cbor(0)}, {7, cbor(2)}}),                    // not a name
                    cbor_map({{3, cbor(65'536)}, {4, cbor(0)}, {7, cbor(0)}}), // no such id
                    cbor_map({{2, cbor(-5)}, {4, cbor(0)}, {7, cbor(0)}}),     // no such port
                    cbor_map({{0, cbor(std::numeric_limits<std::int64_t>::max())},
                              {4, cbor(0)},
                              {7, cbor(0)}})}); // no such time
    const auto trace = read_trace(file_of(parts));
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.messages.size(), 2U);
    EXPECT_EQ(trace.counters.at("cdns_size_differs"), 1U);
    EXPECT_EQ(trace.counters.at("cdns_bad_index"), 3U); // a signature; a name of two messages
    EXPECT_EQ(trace.counters.at("cdns_bad_name"), 2U);
    EXPECT_EQ(trace.counters.at("cdns_bad_value"), 5U);
}

TEST(Cdns, TicksOfAnyLength) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    EXPECT_EQ(cdns_time(10, 1, 2, 0, 1'000'000), 10 * kSecond + 3 * kMicrosecond);
    EXPECT_EQ(cdns_time(10, 1, 2, -3, 1'000'000), 10 * kSecond);
    EXPECT_EQ(cdns_time(10, 0, 1, 0, 3), 10 * kSecond + 333'333'333);
    EXPECT_EQ(cdns_time(0, 0, -1, 0, 1'000), std::nullopt);
    EXPECT_EQ(cdns_time(kMost, 0, 0, 0, 1), std::nullopt);
    EXPECT_EQ(cdns_time(0, 0, kMost, 0, 1), std::nullopt);
    EXPECT_EQ(cdns_time(0, kMost, kMost, kMost, kMost), std::optional<Nanoseconds>(3 * kSecond));
}

TEST(Cdns, OtherVersionsAndFilesAreRefused) {
    EXPECT_THAT(refusal(file_of({}, preamble(2))), HasSubstr("C-DNS of version 2.0"));
    EXPECT_THAT(refusal(file_of({}, preamble(1, 0))), HasSubstr("no tick a second"));
    EXPECT_THAT(refusal(cbor_array({cbor_text("C-DNS"), cbor(1), cbor(2)})),
                HasSubstr("a map was expected"));
}

TEST(Cdns, AParameterSetThatIsNotThereEndsReading) {
    Parts parts;
    const auto block = cbor_map({{0, cbor_map({{1, cbor(5)}})}});
    const auto trace = read_trace(
        cbor_array({cbor_text("C-DNS"), preamble(), cbor_array({parts.block(), block})}));
    EXPECT_EQ(trace.messages.size(), 2U);
    EXPECT_THAT(trace.trouble, HasSubstr("names parameters that the file does not have"));
}

TEST(Cdns, ABlockThatIsTooBigEndsReading) {
    Parts parts;
    constexpr std::uint64_t kMaps = (126UL << 20U) / (18 * sizeof(CborValue)); // 17 keys, the entry
    constexpr std::uint64_t kLists = 300; // of questions, over 16,000 bytes each in memory
    const Buffer list = cbor_head(4, 1'000) + Buffer(1'000, 0x01);
    parts.signatures = cbor_head(4, kMaps) + Buffer(kMaps, 0xa0); // empty ones
    parts.tables = 5;
    parts.more_tables = cbor(4) + cbor_head(4, kLists);
    for (std::uint64_t i = 0; i < kLists; ++i) {
        parts.more_tables.insert(parts.more_tables.end(), list.begin(), list.end());
    }
    const auto trace = read_trace(file_of(parts));
    EXPECT_THAT(trace.trouble, HasSubstr("a block of over 128 MiB"));
}

TEST(Cdns, EveryCutIsToldAndKeepsWholeItems) {
    Parts parts;
    const Buffer one = cbor_map({{3, cbor(7)}, {4, cbor(0)}, {7, cbor(0)}});
    parts.items = cbor_array({one, one});
    const Buffer file = file_of(parts);
    const Buffer head = file_of({}, preamble());
    bool opened = false;
    size_t most = 0;
    for (size_t size = 7; size < file.size(); ++size) {
        const Buffer cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        const std::string refused = refusal(cut);
        EXPECT_TRUE(!opened || refused.empty()) << size;
        if (!refused.empty()) {
            EXPECT_THAT(refused, HasSubstr("ends within")) << size;
            continue;
        }
        opened = true;
        const auto trace = read_trace(cut);
        EXPECT_THAT(trace.trouble, HasSubstr("ends within")) << size;
        EXPECT_GE(trace.messages.size(), most) << size;
        most = trace.messages.size();
    }
    EXPECT_EQ(most, 4U);
}

} // namespace
} // namespace reprise::trace
