// Replies, and packets of all kinds.
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
#include <random>
#include <vector>

namespace reprise::proxy::testing {
namespace {

using ::testing::ElementsAreArray;

TEST_P(StatelessProgramsTest, ATruncatedReplyBringsTheQueryBack) {
    for (size_t letters = 1; letters <= 63; letters += 2) {
        for (const bool edns : {false, true}) {
            const std::uint32_t mine = handshake();
            const Buffer query =
                query_of(question_of(letters), edns ? opt_of(1'232, true) : Buffer{});
            ASSERT_EQ(asks(mine, query).verdict, kPass);
            const Done again =
                leaves(make(of_server(reply_of(question_of(letters), 0, opt_of(1'232), true))));
            ASSERT_EQ(again.verdict, TC_ACT_REDIRECT);
            ASSERT_TRUE(checksums_hold(again.packet)) << letters;
            Recipe same = of_client(0x18, kIrs + 1, mine, framed(query));
            same.window = 14'600;
            EXPECT_EQ(payload_of(again.packet, 0), payload_of(make(same), 0)) << letters;
            const std::uint64_t before = resets(kTruncated);
            EXPECT_EQ(comes(again.packet).verdict, TC_ACT_REDIRECT); // not promoted: reset
            EXPECT_EQ(resets(kTruncated), before + 1);
        }
    }
    EXPECT_EQ(programs_->state().in_flight, 0);
}

/// The replies to the copies are not the client's, which sends the query until the kernel takes it.
TEST_P(StatelessProgramsTest, ASwallowedReplyIsNoAnswer) {
    const Buffer question = question_of(3);
    const Buffer query = query_of(question);
    const std::uint32_t mine = handshake();
    for (int copy = 0; copy < 4; ++copy) {
        ASSERT_EQ(asks(mine, query).verdict, kPass);
    }
    const Buffer truncated = make(of_server(reply_of(question, 0, opt_of(1'232), true)));
    ASSERT_EQ(leaves(truncated).verdict, TC_ACT_REDIRECT);
    for (int copy = 0; copy < 2; ++copy) {
        EXPECT_EQ(asks(mine, query).verdict, TC_ACT_REDIRECT); // not promoted: reset
        EXPECT_EQ(leaves(truncated).verdict, TC_ACT_STOLEN);
    }
    EXPECT_EQ(resets(kTruncated), 2);
}

TEST_P(StatelessProgramsTest, RepliesThatDoNotFit) {
    const Buffer question = question_of(3);
    const std::uint32_t mine = handshake(1'220);
    asks(mine, query_of(question));
    EXPECT_EQ(leaves(make(of_server(reply_of(question, 1'210, opt_of(1'232))))).verdict,
              TC_ACT_REDIRECT);
    asks(mine, query_of(question));
    EXPECT_EQ(resets(kLong), 1);
    const std::uint32_t second = handshake();
    asks(second, query_of(question));
    const Buffer unlike = joined({reply_of(question, 16, opt_of(1'232)), {0, 0, 1}});
    EXPECT_EQ(leaves(make(of_server(unlike))).verdict, TC_ACT_REDIRECT);
    asks(second, query_of(question));
    EXPECT_EQ(resets(kOpt), 1);
}

TEST_P(StatelessProgramsTest, AFullMapTurnsNobodyOut) {
    use(0, 1);
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    EXPECT_EQ(asks(mine, query_of(question)).verdict, kPass);
    Recipe other = of_client(0x02, kIrs, 0);
    other.source_port = 4'001;
    other.tcp_options = {2, 4, 5, 0xb4};
    const std::uint32_t theirs = number32(comes(make(other)).packet, GetParam().header + 4) + 1;
    other = of_client(0x18, kIrs + 1, theirs, framed(query_of(question)));
    other.source_port = 4'001;
    comes(make(other));
    EXPECT_EQ(resets(kFull), 1);
    EXPECT_EQ(leaves(make(of_server(reply_of(question, 4, opt_of(1'232)))))
                  .packet[GetParam().header == 20 ? 9 : 6],
              6);
}

TEST_P(StatelessProgramsTest, LongRepliesOverUdpAreTruncatedWhereAsked) {
    use(512, 64);
    for (size_t letters = 1; letters <= 63; ++letters) {
        const Buffer question = question_of(letters);
        const Buffer opt = opt_of(1'232, true, Buffer(letters % 5 * 4, 9));
        const Done done = leaves(make(of_server(reply_of(question, 600, opt))));
        ASSERT_EQ(done.verdict, kPass);
        ASSERT_TRUE(checksums_hold(done.packet)) << letters;
        EXPECT_THAT(payload_of(done.packet, 8), ElementsAreArray(reply_of(question, 0, opt, true)));
    }
    EXPECT_EQ(count(&StatelessCounts::truncated), 63);
    const Buffer small = make(of_server(reply_of(question_of(3), 400, opt_of(1'232))));
    EXPECT_EQ(leaves(small).packet, small);
}

TEST_P(StatelessProgramsTest, ReplyInFragments) {
    use(512, 64);
    const Buffer question = question_of(9);
    const Buffer reply = make(of_server(reply_of(question, 3'000, opt_of(4'096))));
    for (const bool over_tcp : {false, true}) {
        if (over_tcp) {
            asks(handshake(), query_of(question));
        }
        const std::vector<Buffer> pieces = fragments_of(reply, 1'400);
        const Done first = leaves(pieces[0]);
        ASSERT_TRUE(checksums_hold(first.packet));
        if (over_tcp) {
            EXPECT_EQ(first.verdict, TC_ACT_REDIRECT);
            EXPECT_EQ(payload_of(first.packet, 20), framed(query_of(question)));
        } else {
            EXPECT_EQ(first.verdict, kPass);
            EXPECT_EQ(payload_of(first.packet, 8), reply_of(question, 0, {}, true));
        }
        EXPECT_EQ(leaves(pieces[1]).verdict, TC_ACT_STOLEN);
        EXPECT_EQ(leaves(pieces[2]).verdict, TC_ACT_STOLEN);
    }
    Recipe other = of_server(Buffer(3'000, 1)); // with the identification of the one before
    other.source_port = 54;
    for (const Buffer& piece : fragments_of(make(other), 1'400)) {
        const Done done = leaves(piece);
        EXPECT_EQ(done.verdict, kPass);
        EXPECT_EQ(done.packet, piece);
    }
}

/// A second copy of a query may get another reply, which has no place any more.
TEST_P(StatelessProgramsTest, OfTwoRepliesTheFirstCounts) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    for (int i = 0; i < 3; ++i) {
        asks(mine, query_of(question));
    }
    EXPECT_EQ(leaves(make(of_server(reply_of(question, 16, opt_of(1'232))))).verdict, kPass);
    const Done cut = leaves(make(of_server(reply_of(question, 0, opt_of(1'232), true))));
    EXPECT_EQ(cut.verdict, TC_ACT_STOLEN);
    const Buffer next = framed(query_of(question));
    const auto behind = static_cast<std::uint32_t>(kIrs + 1 + next.size());
    comes(make(of_client(0x18, behind, mine, next))); // another query
    EXPECT_EQ(leaves(make(of_server(reply_of(question, 16, opt_of(1'232))))).verdict, kPass);
    EXPECT_EQ(count(&StatelessCounts::dropped), 1);
    EXPECT_EQ(programs_->state().in_flight, 0);
    EXPECT_EQ(count(&StatelessCounts::queries), 3);
}

TEST_P(StatelessProgramsTest, LateRepliesDoNotLeave) {
    const Buffer question = question_of(3);
    asks(handshake(), query_of(question));
    EXPECT_EQ(programs_->expire(-1), 1);
    const Buffer reply = make(of_server(reply_of(question, 16, opt_of(1'232))));
    EXPECT_EQ(leaves(reply).verdict, TC_ACT_STOLEN);
    EXPECT_EQ(count(&StatelessCounts::late), 1);
    Buffer other = reply_of(question, 16, {});
    other[0] ^= 1U; // another message
    EXPECT_EQ(leaves(make(of_server(other))).verdict, kPass);
}

TEST_P(StatelessProgramsTest, FragmentsOfAReplyThatNobodyWantsDoNotLeave) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    asks(mine, query_of(question));
    const auto next = static_cast<std::uint32_t>(kIrs + 1 + framed(query_of(question)).size());
    comes(make(of_client(0x04, next, mine))); // RST
    const Buffer reply = make(of_server(reply_of(question, 3'000, opt_of(4'096))));
    for (const Buffer& piece : fragments_of(reply, 1'400)) {
        EXPECT_EQ(leaves(piece).verdict, TC_ACT_STOLEN);
    }
    EXPECT_EQ(programs_->state().in_flight, 0);
}

TEST_P(StatelessProgramsTest, AServerWithoutEdnsIsAskedOverTcp) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    asks(mine, query_of(question));
    Buffer refused = reply_of(question, 0, {});
    refused[3] = 0x81; // FORMERR
    EXPECT_EQ(leaves(make(of_server(refused))).verdict, TC_ACT_REDIRECT);
    asks(mine, query_of(question));
    EXPECT_EQ(resets(kOpt), 1);
}

/// A whole checksum that is the pseudo header's sum by chance.
TEST_P(StatelessProgramsTest, AWholeChecksumThatLooksPartial) {
    Recipe syn = of_client(0x02, 0, 0);
    syn.tcp_options = {2, 4, 5, 0xb4};
    syn.seq = word_for_partial(make(syn));
    const Buffer packet = make(syn);
    ASSERT_EQ(whole(packet), partial(packet));
    EXPECT_TRUE(checksums_hold(comes(packet).packet));
}

TEST_P(StatelessProgramsTest, FramesForOthersPass) {
    Recipe syn = of_client(0x02, kIrs, 0);
    syn.tcp_options = {2, 4, 5, 0xb4};
    const Buffer packet = make(syn);
    EXPECT_EQ(run(programs_->in(), packet, 0xff).packet, packet);
}

TEST_P(StatelessProgramsTest, OthersPacketsPass) {
    Recipe other = of_client(0x02, kIrs, 0);
    other.destination_port = 80;
    Buffer packet = make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    other = of_client(0x02, kIrs, 0);
    other.destination = GetParam().header == 20 ? "192.0.2.1" : "2001:db8::1"; // not of this host
    packet = make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    other = of_client(0x18, kIrs, 7, {0, 1, 2});
    other.destination = GetParam().header == 20 ? "192.0.2.1" : "2001:db8::1";
    packet = make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    packet = make(of_server(reply_of(question_of(3), 4, {})));
    EXPECT_EQ(leaves(packet).packet, packet);
}

/// Packets of a connection with bytes of it changed: whatever comes out has right checksums where
/// it went in with right ones, and the counts of entries stay true.
TEST_P(StatelessProgramsTest, ChangedPackets) {
    std::mt19937_64 random(7);
    const Buffer question = question_of(9);
    for (int i = 0; i < 4'000; ++i) {
        const std::uint32_t mine = handshake();
        Recipe sent =
            i % 2 == 0 ? of_client(0x18, kIrs + 1, mine, framed(query_of(question, opt_of(1'232))))
                       : of_server(reply_of(question, 30, opt_of(1'232)));
        if (i % 2 != 0) {
            asks(mine, query_of(question));
        }
        for (size_t changes = random() % 3; changes > 0; --changes) {
            sent.payload[random() % sent.payload.size()] ^=
                static_cast<std::uint8_t>(1U << random() % 8);
        }
        sent.payload.resize(sent.payload.size() - random() % 2 * (random() % 12));
        if (sent.protocol == 6 && random() % 4 == 0) {
            sent.tcp_flags = static_cast<std::uint8_t>(random());
        }
        const Done done = run(i % 2 == 0 ? programs_->in() : programs_->out(), make(sent));
        ASSERT_THAT(done.verdict,
                    ::testing::AnyOf(kPass, TC_ACT_SHOT, TC_ACT_STOLEN, TC_ACT_REDIRECT));
        if (done.verdict == kPass || done.verdict == TC_ACT_REDIRECT) {
            ASSERT_TRUE(checksums_hold(done.packet)) << i;
        }
        programs_->expire(-1);
        ASSERT_EQ(programs_->state().in_flight, 0) << i;
    }
}

} // namespace
} // namespace reprise::proxy::testing
