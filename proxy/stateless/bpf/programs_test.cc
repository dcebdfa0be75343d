// Queries and connections.
#include "core/base/clock.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/bpf/testing/programs_bed.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <linux/pkt_cls.h>
#include <string>
#include <utility>
#include <vector>

namespace reprise::proxy::testing {
namespace {

using ::testing::ElementsAreArray;

INSTANTIATE_TEST_SUITE_P(Families, StatelessProgramsTest, ::testing::Values(kV4, kV6),
                         [](const auto& family) { return std::string(family.param.name); });

// Names of all lengths: the parts of a checksum begin at even and at odd places.

TEST_P(StatelessProgramsTest, AQueryAndItsReplyWithoutEdns) {
    for (size_t letters = 1; letters <= 63; ++letters) {
        const std::uint32_t mine = handshake();
        const Buffer question = question_of(letters);
        const Done asked = asks(mine, query_of(question));
        ASSERT_EQ(asked.verdict, kPass);
        ASSERT_TRUE(checksums_hold(asked.packet)) << letters;
        const std::uint16_t size = GetParam().header == 20 ? 1'458 : 1'438;
        EXPECT_THAT(payload_of(asked.packet, 8),
                    ElementsAreArray(query_of(question, opt_of(size))));

        const Done replied =
            leaves(make(of_server(reply_of(question, 16 + letters % 3, opt_of(1'232)))));
        ASSERT_EQ(replied.verdict, kPass);
        ASSERT_TRUE(checksums_hold(replied.packet)) << letters;
        const size_t tcp = GetParam().header;
        EXPECT_EQ(replied.packet[tcp + 13], 0x19); // FIN, PSH, ACK
        EXPECT_EQ(number32(replied.packet, tcp + 4), mine);
        EXPECT_EQ(number32(replied.packet, tcp + 8), kIrs + 1 + 2 + 12 + question.size());
        EXPECT_THAT(payload_of(replied.packet, 20),
                    ElementsAreArray(framed(reply_of(question, 16 + letters % 3, {}))));
    }
    EXPECT_EQ(programs_->state().in_flight, 0);
    EXPECT_EQ(programs_->state().most_in_flight, 1);
    EXPECT_GT(programs_->state().lived, 0);
    EXPECT_LT(programs_->state().lived, 60U * kSecond);
}

TEST_P(StatelessProgramsTest, AQueryWithEdnsGetsTheSizeOfASegment) {
    for (size_t letters = 1; letters <= 63; ++letters) {
        const std::uint32_t mine = handshake(1'220);
        const Buffer question = question_of(letters);
        const Done asked = asks(mine, query_of(question, opt_of(512, true)));
        ASSERT_EQ(asked.verdict, kPass);
        ASSERT_TRUE(checksums_hold(asked.packet)) << letters;
        EXPECT_THAT(payload_of(asked.packet, 8),
                    ElementsAreArray(query_of(question, opt_of(1'218, true))));
        const Buffer reply = reply_of(question, 100 + letters, opt_of(4'096, true));
        const Done replied = leaves(make(of_server(reply)));
        ASSERT_TRUE(checksums_hold(replied.packet)) << letters;
        EXPECT_THAT(payload_of(replied.packet, 20), ElementsAreArray(framed(reply)));
    }
}

TEST_P(StatelessProgramsTest, AQueryWhoseWholeChecksumLooksPartial) {
    const std::uint32_t mine = handshake();
    const auto with_id = [&](std::uint32_t id) {
        Buffer query = query_of(question_of(7));
        query[0] = static_cast<std::uint8_t>(id >> 8U);
        query[1] = static_cast<std::uint8_t>(id);
        return make(of_client(0x18, kIrs + 1, mine, framed(query)));
    };
    const Buffer packet = with_id(word_for_partial(with_id(0)));
    ASSERT_EQ(whole(packet), partial(packet));
    const Done asked = comes(packet);
    ASSERT_EQ(asked.verdict, kPass);
    EXPECT_TRUE(checksums_hold(asked.packet));
}

TEST_P(StatelessProgramsTest, AWrongChecksumStaysWrong) {
    const std::uint32_t mine = handshake();
    Buffer packet = make(of_client(0x18, kIrs + 1, mine, framed(query_of(question_of(7)))));
    packet.back() ^= 1U;
    EXPECT_FALSE(checksums_hold(comes(packet).packet));
}

TEST_P(StatelessProgramsTest, AQueryThatCameAgainIsAnsweredAgain) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(asks(mine, query_of(question)).verdict, kPass);
    }
    const Buffer reply = make(of_server(reply_of(question, 16, opt_of(1'232))));
    const Done first = leaves(reply);
    EXPECT_EQ(payload_of(leaves(reply).packet, 0), payload_of(first.packet, 0));
    EXPECT_EQ(payload_of(leaves(reply).packet, 0), payload_of(first.packet, 0));
    EXPECT_EQ(programs_->state().in_flight, 0);
    EXPECT_EQ(leaves(reply).packet[GetParam().header == 20 ? 9 : 6], 17); // nobody waits for it
    EXPECT_EQ(count(&StatelessCounts::retransmitted), 2);
}

TEST_P(StatelessProgramsTest, TheirTimeIsMeasuredWhereThatIsAsked) {
    for (const std::uint8_t timed : {std::uint8_t{0}, std::uint8_t{1}}) {
        use(0, 64, timed);
        const Buffer question = question_of(3);
        EXPECT_EQ(asks(handshake(), query_of(question)).verdict, kPass);
        EXPECT_EQ(count(&StatelessCounts::in_time) > 0, timed != 0);
        EXPECT_EQ(count(&StatelessCounts::out_time), 0);
        const std::uint64_t before = count(&StatelessCounts::in_time);
        EXPECT_EQ(leaves(make(of_server(reply_of(question, 16, opt_of(1'232))))).verdict, kPass);
        EXPECT_EQ(count(&StatelessCounts::out_time) > 0, timed != 0);
        EXPECT_EQ(count(&StatelessCounts::in_time), before);
    }
}

/// The server may have lost all copies before. Of more than can be counted the entry stays.
TEST_P(StatelessProgramsTest, EveryCopyOfAQueryGoesToTheServer) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(asks(mine, query_of(question)).verdict, kPass);
    }
    const Buffer reply = make(of_server(reply_of(question, 16, opt_of(1'232))));
    const Done first = leaves(reply);
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(payload_of(leaves(reply).packet, 0), payload_of(first.packet, 0));
    }
    EXPECT_EQ(programs_->state().in_flight, 1);
    EXPECT_EQ(programs_->expire(-1), 0); // it was answered
    EXPECT_EQ(programs_->state().in_flight, 0);
}

TEST_P(StatelessProgramsTest, WhatNeedsTheKernelIsNamed) {
    const Buffer question = question_of(3);
    const Buffer whole = query_of(question);
    const auto changed = [&](size_t at, std::uint8_t to) {
        Buffer message = whole;
        message[at] = to;
        return framed(message);
    };
    const Buffer tsig = joined({{1, 'k', 0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0}});
    Buffer two = query_of(question, tsig);
    Buffer cut = framed(whole);
    cut.pop_back();
    const std::vector<std::pair<PromotionReason, Buffer>> cases{
        {kSplit, {0}},
        {kSplit, {0, 29}},
        {kSplit, cut},
        {kPipelined, joined({framed(whole), framed(whole)})},
        {kQuestion, {0, 1, 0}},
        {kQuestion, changed(5, 2)},
        {kQuestion, changed(7, 1)},
        {kQuestion, changed(12, 0xc0)},
        {kQuestion, changed(12, 60)},
        {kQuestion, framed(joined({whole, {0}}))},
        {kOpcode, changed(2, 5 << 3)},
        {kFlags, changed(2, 0x80)},
        {kFlags, changed(2, 0x02)},
        {kFlags, changed(3, 0x40)},
        {kTransfer, framed(query_of(question_of(3, 252)))},
        {kTransfer, framed(query_of(question_of(3, 251)))},
        {kTsig, framed(two)},
        {kCookie, framed(query_of(question, opt_of(1'232, false, {0, 10, 0, 1, 7})))},
        {kEcs, framed(query_of(question, opt_of(1'232, false, {0, 8, 0, 1, 7})))},
        {kOption, framed(query_of(question, opt_of(1'232, false, {0, 12, 0, 0})))},
    };
    for (const auto& [reason, payload] : cases) {
        const std::uint32_t mine = handshake();
        const std::uint64_t before = resets(reason);
        const Done done = comes(make(of_client(0x18, kIrs + 1, mine, payload)));
        EXPECT_EQ(resets(reason), before + 1) << reason << " " << payload.size();
        EXPECT_EQ(done.verdict, TC_ACT_REDIRECT);
        ASSERT_EQ(done.packet.size(), GetParam().header + 20);
        EXPECT_EQ(done.packet[GetParam().header + 13], 0x04); // RST
        EXPECT_EQ(number32(done.packet, GetParam().header + 4), mine);
        EXPECT_TRUE(checksums_hold(done.packet));
    }
    EXPECT_EQ(programs_->state().most_in_flight, 0);
}

TEST_P(StatelessProgramsTest, SegmentsThatAreNotAlone) {
    const Buffer payload = framed(query_of(question_of(3)));
    const std::uint32_t mine = handshake();
    Recipe segment = of_client(0x19, kIrs + 1, mine, payload);
    comes(make(segment));
    EXPECT_EQ(resets(kFinished), 1);
    segment.tcp_flags = 0x18;
    segment.tcp_options = {1, 1, 1, 1};
    comes(make(segment));
    EXPECT_EQ(resets(kSegmented), 1);
    segment.tcp_options = {};
    segment.window = 500;
    comes(make(segment));
    EXPECT_EQ(resets(kWindow), 1);
}

TEST_P(StatelessProgramsTest, OnlyAHandshakeLetsDataIn) {
    const std::uint32_t mine = handshake();
    const Buffer payload = framed(query_of(question_of(3)));
    const Done refused = comes(make(of_client(0x18, kIrs + 1, mine + 1, payload)));
    EXPECT_EQ(refused.verdict, TC_ACT_REDIRECT);
    EXPECT_EQ(refused.packet[GetParam().header + 13], 0x04);
    EXPECT_EQ(count(&StatelessCounts::refused_cookies), 1);
    // Of the connection, but not its first byte: it comes again.
    EXPECT_EQ(comes(make(of_client(0x18, kIrs + 2, mine, payload))).verdict, TC_ACT_SHOT);
    EXPECT_EQ(count(&StatelessCounts::waiting), 1);
    EXPECT_EQ(count(&StatelessCounts::queries), 0);
}

/// Its number fits by chance, or what is before it was given up.
TEST_P(StatelessProgramsTest, WhatWaitsInVainIsAnswered) {
    const std::uint32_t mine = handshake();
    const Buffer payload = framed(query_of(question_of(3)));
    const Buffer data = make(of_client(0x18, kIrs + 60, mine, payload));
    const Buffer fin = make(of_client(0x11, kIrs + 40, mine));
    for (const Buffer& segment : {data, fin}) {
        for (int i = 0; i < kPatience; ++i) {
            EXPECT_EQ(comes(segment).verdict, TC_ACT_SHOT);
        }
    }
    EXPECT_EQ(comes(make(of_client(0x11, kIrs + 41, mine))).verdict, TC_ACT_SHOT) << "another one";
    EXPECT_EQ(count(&StatelessCounts::waiting), 2 * kPatience + 1);
    for (int i = 0; i < kPatience; ++i) {
        comes(data);
    }
    const Done refused = comes(data);
    EXPECT_EQ(refused.packet[GetParam().header + 13], 0x04);
    EXPECT_EQ(count(&StatelessCounts::reset), 1);
    comes(fin);
    comes(fin);
    comes(fin);
    EXPECT_EQ(comes(fin).packet[GetParam().header + 13], 0x11);
    EXPECT_EQ(asks(mine, query_of(question_of(3))).verdict, kPass) << "the first, after all";
}

TEST_P(StatelessProgramsTest, ASecretStaysGoodForAPeriod) {
    const std::uint32_t mine = handshake();
    StatelessState& state = programs_->state();
    state.keys[1][0] = 99;
    state.current = 1;
    EXPECT_EQ(asks(mine, query_of(question_of(3))).verdict, kPass);
    state.keys[0][0] = 98;
    state.current = 0;
    EXPECT_EQ(asks(mine, query_of(question_of(4))).verdict, TC_ACT_REDIRECT);
    EXPECT_EQ(count(&StatelessCounts::refused_cookies), 1);
}

TEST_P(StatelessProgramsTest, TheEndOfAConnection) {
    const std::uint32_t mine = handshake();
    const size_t tcp = GetParam().header;
    EXPECT_EQ(comes(make(of_client(0x10, kIrs + 1, mine))).verdict, TC_ACT_SHOT);
    EXPECT_EQ(count(&StatelessCounts::handshake_ack), 1);
    const Done probe = comes(make(of_client(0x10, kIrs, mine)));
    EXPECT_EQ(probe.verdict, TC_ACT_REDIRECT) << "keepalive";
    EXPECT_EQ(number32(probe.packet, tcp + 4), mine);
    EXPECT_EQ(number32(probe.packet, tcp + 8), kIrs + 1);
    const Done early = comes(make(of_client(0x11, kIrs + 1, mine)));
    EXPECT_EQ(early.packet[tcp + 13], 0x11) << "a client that leaves without a query";
    const Done late = comes(make(of_client(0x11, kIrs + 30, mine + 100)));
    EXPECT_EQ(late.packet[tcp + 13], 0x11);
    EXPECT_EQ(number32(late.packet, tcp + 4), mine + 100);
    EXPECT_EQ(number32(late.packet, tcp + 8), kIrs + 31);
    EXPECT_TRUE(checksums_hold(late.packet));
}

/// Two fronts would go on for ever.
TEST_P(StatelessProgramsTest, AnswersOfAnotherFrontAreNotAnswered) {
    const size_t tcp = GetParam().header;
    Recipe fin = of_client(0x11, kIrs + 30, 7'000);
    fin.source_port = 53;
    const Done reset = comes(make(fin));
    EXPECT_EQ(reset.verdict, TC_ACT_REDIRECT);
    EXPECT_EQ(reset.packet[tcp + 13], 0x04);
    EXPECT_EQ(number32(reset.packet, tcp + 4), 7'000);
    fin.source_port = 5'353;
    const Done answered = comes(make(fin));
    EXPECT_EQ(answered.packet[tcp + 13], 0x11);
    fin.window =
        static_cast<std::uint16_t>(answered.packet[tcp + 14] << 8U | answered.packet[tcp + 15]);
    EXPECT_EQ(comes(make(fin)).verdict, TC_ACT_SHOT);
}

/// The kernel drops them, so that nothing is answered that may be of other bytes.
TEST_P(StatelessProgramsTest, DamagedPacketsAreLeftToTheKernel) {
    const std::uint32_t mine = handshake();
    const Buffer query = framed(query_of(question_of(7)));
    std::vector<Buffer> packets{make(of_client(0x02, kIrs, 0)),
                                make(of_client(0x18, kIrs + 1, mine, query)),
                                make(of_client(0x18, kIrs + 1, mine + 1, query)),
                                make(of_client(0x11, kIrs + 30, 7'000)),
                                make(of_client(0x10, kIrs, mine)),
                                make(of_client(0x18, kIrs + 1, mine, framed(Buffer(1'400, 7))))};
    for (Buffer& packet : packets) {
        const Buffer whole = packet;
        packet[GetParam().header + 4 + packet.size() % 4] ^= 1U; // the sequence number
        const Done done = comes(packet);
        EXPECT_EQ(done.verdict, kPass);
        EXPECT_EQ(done.packet, packet);
        if (GetParam().header == 20) {
            Buffer header = whole;
            header[8] ^= 1U; // TTL
            EXPECT_EQ(comes(header).verdict, kPass);
            EXPECT_EQ(comes(header).packet, header);
        }
    }
    EXPECT_EQ(count(&StatelessCounts::queries) + count(&StatelessCounts::reset) +
                  count(&StatelessCounts::fin) + count(&StatelessCounts::handshake_ack),
              0);
    EXPECT_EQ(count(&StatelessCounts::syn_ack), 1);
    EXPECT_EQ(programs_->state().in_flight, 0);
}

TEST_P(StatelessProgramsTest, UrgentDataAndSignedSegmentsAreTheKernels) {
    const std::uint32_t mine = handshake();
    const Buffer query = framed(query_of(question_of(7)));
    comes(make(of_client(0x38, kIrs + 1, mine, query)));
    EXPECT_EQ(resets(kSegmented), 1);
    for (const std::uint8_t kind : {std::uint8_t{19}, std::uint8_t{29}}) { // TCP-MD5 and TCP-AO
        Recipe segment = of_client(0x02, kIrs, 0);
        segment.tcp_options = {1, 1, kind, 18};
        segment.tcp_options.resize(20, 9);
        EXPECT_EQ(comes(make(segment)).verdict, kPass);
        segment.tcp_flags = 0x18;
        segment.seq = kIrs + 1;
        segment.ack = mine;
        segment.payload = query;
        EXPECT_EQ(comes(make(segment)).verdict, kPass);
    }
    EXPECT_EQ(count(&StatelessCounts::syn), 1);
    EXPECT_EQ(count(&StatelessCounts::queries), 0);
}

TEST_P(StatelessProgramsTest, AHalfClosedConnectionsReplyAcknowledgesTheFin) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    const std::uint32_t next =
        kIrs + 1 + static_cast<std::uint32_t>(framed(query_of(question)).size());
    const Done fin_first = comes(make(of_client(0x11, next, mine)));
    EXPECT_EQ(fin_first.verdict, TC_ACT_SHOT) << "its query has not come yet";
    asks(mine, query_of(question));
    EXPECT_EQ(comes(make(of_client(0x11, next, mine))).verdict, TC_ACT_SHOT);
    const Done replied = leaves(make(of_server(reply_of(question, 4, opt_of(1'232)))));
    EXPECT_EQ(number32(replied.packet, GetParam().header + 8), next + 1);
}

} // namespace
} // namespace reprise::proxy::testing
