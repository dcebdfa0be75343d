// dnstap files made here, whole and broken. Real ones: foreign_data_test.cc.
#include "core/trace/forms/dnstap/dnstap.pb.h"
#include "core/trace/forms/message_source.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::uint64_t kAsked = 1'475'762'151;

Buffer text(std::string_view chars) { return {chars.begin(), chars.end()}; }

Buffer control(std::uint32_t type, const Buffer& fields = {}) {
    return be32(0) + be32(static_cast<std::uint32_t>(4 + fields.size())) + be32(type) + fields;
}

Buffer start(std::string_view content = "protobuf:dnstap.Dnstap") {
    return control(2, be32(1) + be32(static_cast<std::uint32_t>(content.size())) + text(content));
}

Buffer stop() { return control(3); }

Buffer frame(const Buffer& payload) {
    return be32(static_cast<std::uint32_t>(payload.size())) + payload;
}

std::string chars(const Buffer& bytes) { return {bytes.begin(), bytes.end()}; }

/// An exchange over UDP from 192.0.2.1:4000 to 198.51.100.1:53.
dnstap::Exchange exchange(std::uint32_t type) {
    dnstap::Exchange out;
    out.set_type(type);
    out.set_socket_family(1);
    out.set_socket_protocol(1);
    out.set_query_address(std::string("\xc0\x00\x02\x01", 4));
    out.set_response_address(std::string("\xc6\x33\x64\x01", 4));
    out.set_query_port(4'000);
    out.set_response_port(53);
    return out;
}

void set_query(dnstap::Exchange& exchange, std::uint16_t id) {
    exchange.set_query_message(chars(dns(id)));
    exchange.set_query_time_sec(kAsked);
    exchange.set_query_time_nsec(123'456'789);
}

void set_response(dnstap::Exchange& exchange, std::uint16_t id) {
    exchange.set_response_message(chars(dns(id, true)));
    exchange.set_response_time_sec(kAsked);
    exchange.set_response_time_nsec(987'654'321);
}

dnstap::Exchange query(std::uint32_t type, std::uint16_t id) {
    dnstap::Exchange out = exchange(type);
    set_query(out, id);
    return out;
}

Buffer frame_of(const dnstap::Exchange& exchange) {
    dnstap::Frame out;
    out.set_identity("server");
    out.set_type(1);
    *out.mutable_message() = exchange;
    const std::string bytes = out.SerializeAsString();
    return frame(text(bytes));
}

TEST(Dnstap, IsKnownByItsStartFrame) {
    EXPECT_TRUE(kDnstapForm.fits(start()));
    EXPECT_FALSE(kDnstapForm.fits(stop()));
    EXPECT_FALSE(kDnstapForm.fits(hex("00000000 00000022")));
    EXPECT_FALSE(kDnstapForm.fits(hex("d4c3b2a1 02000400 00000000")));
}

TEST(Dnstap, AQueryHasItsBytesTimeAndEnds) {
    const auto trace = read_trace(start() + frame_of(query(1, 7)) + stop());
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.description, "dnstap");
    EXPECT_EQ(trace.packets, 1U);
    EXPECT_THAT(trace.counters, ElementsAre(Pair("dnstap_auth_query", 1)));
    ASSERT_EQ(trace.messages.size(), 1U);
    const ReadMessage& message = trace.messages[0];
    EXPECT_EQ(message.bytes, dns(7));
    EXPECT_EQ(message.time, static_cast<Nanoseconds>(kAsked) * kSecond + 123'456'789);
    EXPECT_EQ(message.source, "192.0.2.1:4000");
    EXPECT_EQ(message.destination, "198.51.100.1:53");
    EXPECT_FALSE(message.response);
}

TEST(Dnstap, TransportsAreKept) {
    Buffer file = start();
    for (const std::uint32_t protocol : {1U, 2U, 3U, 4U, 5U, 6U, 7U}) {
        auto one = query(5, 1);
        one.set_socket_protocol(protocol);
        file = std::move(file) + frame_of(one);
    }
    const auto trace = read_trace(file + stop());
    std::vector<Transport> seen;
    std::ranges::transform(trace.messages, std::back_inserter(seen), &ReadMessage::transport);
    EXPECT_THAT(seen,
                ElementsAre(Transport::kUdp, Transport::kTcp, Transport::kTls, Transport::kHttps,
                            Transport::kUdp, Transport::kTcp, Transport::kQuic));
    EXPECT_EQ(trace.counters.at("dnstap_other_transport"), 2U);
}

TEST(Dnstap, AFrameWithBothSidesYieldsBoth) {
    auto both = query(6, 9);
    set_response(both, 9);
    const auto trace = read_trace(start() + frame_of(both) + stop());
    ASSERT_EQ(trace.messages.size(), 2U);
    EXPECT_FALSE(trace.messages[0].response);
    EXPECT_TRUE(trace.messages[1].response);
    EXPECT_EQ(trace.messages[1].source, "198.51.100.1:53");
    EXPECT_EQ(trace.messages[1].time % kSecond, 987'654'321);
    EXPECT_EQ(trace.counters.at("dnstap_query_in_response_only"), 1U);
}

TEST(Dnstap, AQueryToldTwiceIsYieldedOnce) {
    auto both = query(6, 9);
    set_response(both, 9);
    const auto trace =
        read_trace(start() + frame_of(query(5, 9)) + frame_of(both) + frame_of(both) + stop());
    // The second response is of another exchange: its query had no frame of its own.
    EXPECT_EQ(std::ranges::count(trace.messages, false, &ReadMessage::response), 2);
    EXPECT_EQ(std::ranges::count(trace.messages, true, &ReadMessage::response), 2);
}

/// A slow answer does not set the trace's time back.
TEST(Dnstap, QueriesThatOnlyResponsesHaveComeInTheirOrder) {
    Buffer file = start();
    const std::vector<std::pair<unsigned, unsigned>> seconds{
        {0, 1}, {2, 3}, {1, 9}, {8, 10}, {10, 30}};
    for (const auto& [asked, answered] : seconds) {
        auto both = query(6, 9);
        set_response(both, 9);
        both.set_query_time_sec(kAsked + asked);
        both.set_response_time_sec(kAsked + answered);
        file = std::move(file) + frame_of(both);
    }
    std::vector<std::uint64_t> asked;
    std::vector<Nanoseconds> times;
    for (const ReadMessage& message : read_trace(file + stop()).messages) {
        times.push_back(message.time);
        if (!message.response) {
            asked.push_back(static_cast<std::uint64_t>(message.time / kSecond) - kAsked);
        }
    }
    EXPECT_THAT(asked, ElementsAre(0, 1, 2, 8, 10));
    EXPECT_EQ(times.size(), 10U);
    EXPECT_TRUE(std::ranges::is_sorted(times));
}

/// What follows a step back of the clock does not come before what was before it.
TEST(Dnstap, TheOrderIsKeptOverAStepBackOfTheClock) {
    Buffer file = start();
    const std::vector<unsigned> seconds{3600, 3602, 0, 2};
    for (const unsigned asked : seconds) {
        auto both = query(6, 9);
        set_response(both, 9);
        both.set_query_time_sec(kAsked + asked);
        both.set_response_time_sec(kAsked + asked + 1);
        file = std::move(file) + frame_of(both);
    }
    std::vector<std::uint64_t> asked;
    for (const ReadMessage& message : read_trace(file + stop()).messages) {
        if (!message.response) {
            asked.push_back(static_cast<std::uint64_t>(message.time / kSecond) - kAsked);
        }
    }
    EXPECT_THAT(asked, ElementsAre(3600, 3602, 0, 2));
}

/// Ids go round, so that a query is the same again when the one before is forgotten.
TEST(Dnstap, ATakenQueryThatIsForgottenTakesNoOtherAlong) {
    constexpr unsigned kIds = 65'536;
    Buffer file = start();
    const auto add = [&file](const dnstap::Exchange& one) {
        const Buffer bytes = frame_of(one);
        file.insert(file.end(), bytes.begin(), bytes.end());
    };
    Buffer first = frame_of(query(5, 0));
    const auto id_of = std::ranges::mismatch(first, frame_of(query(5, 0xffff))).in1;
    for (unsigned i = 0; i < kIds + 2; ++i) {
        const auto id = static_cast<std::uint16_t>(i);
        id_of[0] = static_cast<std::uint8_t>(id >> 8U);
        id_of[1] = static_cast<std::uint8_t>(id);
        file.insert(file.end(), first.begin(), first.end());
        if ((i + 2) % kIds < 4) { // at both ends
            auto both = query(6, id);
            set_response(both, id);
            add(both);
        }
    }
    const ScratchFile scratch(file + stop());
    Reader reader(scratch.path());
    unsigned messages = 0;
    for (Query message; reader.next(message); ++messages) {
    }
    EXPECT_EQ(messages, kIds + 2 + 6);
    EXPECT_FALSE(reader.counters().contains("dnstap_query_in_response_only"));
}

TEST(Dnstap, AddressesThatAreNotToldHaveStandIns) {
    auto upstream = query(7, 1);
    upstream.clear_query_address();
    upstream.clear_query_port();
    auto client = query(5, 2);
    client.set_query_address(std::string(16, '\x20'));
    client.clear_response_address();
    client.clear_response_port();
    const auto trace = read_trace(start() + frame_of(upstream) + frame_of(client) + stop());
    ASSERT_EQ(trace.messages.size(), 2U);
    EXPECT_EQ(trace.messages[0].source, "0.0.0.0:0");
    EXPECT_EQ(trace.messages[1].destination, "[2001:db8::53]:53");
    EXPECT_EQ(trace.counters.at("dnstap_no_source"), 1U);
    EXPECT_EQ(trace.counters.at("dnstap_no_destination"), 1U);
}

TEST(Dnstap, OddFramesAreCountedAndPassedOver) {
    auto port = query(1, 1);
    port.set_query_port(65'536);
    auto late = query(1, 1);
    late.set_query_time_sec(~std::uint64_t{0});
    auto nano = query(1, 1);
    nano.set_query_time_nsec(1'000'000'000);
    auto tiny = exchange(1);
    tiny.set_query_message("abc");
    auto timeless = query(99, 1);
    timeless.clear_query_time_sec();
    const auto trace = read_trace(start() + frame_of(port) + frame_of(late) + frame_of(nano) +
                                  frame_of(exchange(1)) + frame_of(tiny) + frame_of(timeless) +
                                  frame(hex("ffffffff")) + stop());
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.messages.size(), 1U);
    EXPECT_THAT(trace.counters,
                ElementsAre(Pair("dnstap_auth_query", 2), Pair("dnstap_bad_frame", 4),
                            Pair("dnstap_no_message", 1), Pair("dnstap_no_time", 1),
                            Pair("dnstap_unknown_type", 1), Pair("short_message", 1)));
}

TEST(Dnstap, AMessageLongerThanDnsHasThemIsCountedAndDropped) {
    auto longest = query(1, 1);
    longest.set_query_message(chars(dns(1) + Buffer(65'535 - dns(1).size())));
    auto longer = query(1, 2);
    longer.set_query_message(chars(dns(2) + Buffer(65'536 - dns(2).size())));
    auto reply = exchange(2);
    set_response(reply, 3);
    reply.set_response_message(std::string(100'000, 'x'));
    const auto trace = read_trace(start() + frame_of(longest) + frame_of(longer) + frame_of(reply) +
                                  frame_of(query(1, 4)) + stop());
    EXPECT_EQ(trace.trouble, "");
    ASSERT_EQ(trace.messages.size(), 2U);
    EXPECT_EQ(trace.messages[0].bytes.size(), 65'535U);
    EXPECT_EQ(trace.counters.at("long_message"), 2U);
}

TEST(Dnstap, AnotherContentIsRefused) {
    EXPECT_THAT(refusal(start("protobuf:other") + stop()),
                HasSubstr("frame stream of type \"protobuf:other\", not"));
    EXPECT_THAT(refusal(control(2) + stop()), HasSubstr("frame stream of type \"\""));
}

TEST(Dnstap, EveryCutIsToldAndKeepsWhatCameBefore) {
    const Buffer head = start();
    const Buffer one = frame_of(query(1, 7));
    const Buffer file = head + one + one + stop();
    for (size_t size = 12; size < file.size(); ++size) {
        const Buffer cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        if (size < head.size()) {
            EXPECT_THAT(refusal(cut), HasSubstr("cut or damaged in its first frame")) << size;
            continue;
        }
        const auto trace = read_trace(cut);
        EXPECT_EQ(trace.messages.size(), std::min<size_t>((size - head.size()) / one.size(), 2))
            << size;
        EXPECT_THAT(trace.trouble, HasSubstr("cut at byte")) << size;
    }
}

TEST(Dnstap, WhatFollowsTheStopFrameIsTold) {
    const Buffer file = start() + frame_of(query(1, 7)) + stop();
    for (const Buffer& more : {file, stop(), hex("00")}) {
        const auto trace = read_trace(file + more);
        EXPECT_EQ(trace.messages.size(), 1U);
        EXPECT_THAT(trace.trouble, HasSubstr("after 1 frames: something follows the trace's end"));
    }
}

TEST(Dnstap, AFrameTooLongEndsReading) {
    const auto trace = read_trace(start() + frame_of(query(1, 7)) + be32(0x7fff'ffff) + hex("00"));
    EXPECT_EQ(trace.messages.size(), 1U);
    EXPECT_THAT(trace.trouble, HasSubstr("damaged at byte"));
}

} // namespace
} // namespace reprise::trace
