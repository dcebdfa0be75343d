// The BPF programs by the kernel's own test runner: one packet in, a verdict and a packet out.
// Connections are not given to the kernel's TCP there; tests with real hosts show that.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/testing/netns.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bpf/bpf.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <linux/pkt_cls.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <random>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::proxy {
namespace {

using testing::Buffer;
using ::testing::Each;
using ::testing::ElementsAreArray;
using testing::Recipe;

constexpr std::uint32_t kIrs = 0x01020304; ///< initial sequence number of the clients
constexpr size_t kEthernet = 14;
constexpr int kPass = -1; // TC_ACT_UNSPEC

struct Family {
    std::string_view name;
    std::string_view client;
    std::string_view server;
    size_t header; ///< bytes of the IP header
};

constexpr Family kV4{.name = "IPv4", .client = "127.0.0.9", .server = "127.0.0.1", .header = 20};
constexpr Family kV6{.name = "IPv6", .client = "2001:db8::9", .server = "::1", .header = 40};

struct Done {
    int verdict = 0;
    Buffer packet; ///< without its Ethernet header
};

Buffer joined(std::initializer_list<Buffer> parts) {
    Buffer all;
    for (const Buffer& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

/// A name of one label.
Buffer name_of(size_t letters) {
    Buffer name(letters + 2, 'x');
    name.front() = static_cast<std::uint8_t>(letters);
    name.back() = 0;
    return name;
}

Buffer question_of(size_t letters, std::uint8_t type = 1) {
    return joined({name_of(letters), {0, type, 0, 1}});
}

Buffer opt_of(std::uint16_t size, bool dnssec_ok = false, const Buffer& options = {}) {
    return joined(
        {{0, 0, 41, static_cast<std::uint8_t>(size >> 8U), static_cast<std::uint8_t>(size & 0xffU),
          0, 0, static_cast<std::uint8_t>(dnssec_ok ? 0x80 : 0), 0, 0,
          static_cast<std::uint8_t>(options.size())},
         options});
}

/// RD set; without `opt` where it is empty.
Buffer query_of(const Buffer& question, const Buffer& opt = {}) {
    return joined(
        {{0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(opt.empty() ? 0 : 1)},
         question,
         opt});
}

/// With an answer of `answer` bytes, which are not looked at.
Buffer reply_of(const Buffer& question, size_t answer, const Buffer& opt, bool truncated = false) {
    return joined({{0xab, 0xcd, static_cast<std::uint8_t>(truncated ? 0x83 : 0x81), 0x80, 0, 1, 0,
                    static_cast<std::uint8_t>(answer == 0 ? 0 : 1), 0, 0, 0,
                    static_cast<std::uint8_t>(opt.empty() ? 0 : 1)},
                   question,
                   Buffer(answer, 0x5a),
                   opt});
}

Buffer framed(const Buffer& message) {
    return joined({{static_cast<std::uint8_t>(message.size() >> 8U),
                    static_cast<std::uint8_t>(message.size() & 0xffU)},
                   message});
}

std::uint32_t number32(const Buffer& packet, size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, packet.data() + at, sizeof value);
    return ntohl(value);
}

/// IP fragments of a packet, of `size` bytes each (a multiple of 8).
std::vector<Buffer> fragments_of(const Buffer& packet, size_t size) {
    if (packet[0] >> 4U == 4) {
        return testing::fragment_v4(packet, size);
    }
    constexpr size_t kHeader = 40;
    std::vector<Buffer> all;
    for (size_t at = kHeader; at < packet.size(); at += size) {
        const size_t end = std::min(at + size, packet.size());
        const size_t offset = at - kHeader + (end < packet.size() ? 1 : 0);
        Buffer piece(packet.begin(), packet.begin() + kHeader);
        const size_t length = end - at + 8;
        piece[4] = static_cast<std::uint8_t>(length >> 8U);
        piece[5] = static_cast<std::uint8_t>(length & 0xffU);
        const Buffer header{packet[6],
                            0,
                            static_cast<std::uint8_t>(offset >> 8U),
                            static_cast<std::uint8_t>(offset & 0xffU),
                            1,
                            2,
                            3,
                            4};
        piece[6] = 44;
        piece.insert(piece.end(), header.begin(), header.end());
        piece.insert(piece.end(), packet.begin() + static_cast<std::ptrdiff_t>(at),
                     packet.begin() + static_cast<std::ptrdiff_t>(end));
        all.push_back(piece);
    }
    return all;
}

LocalAddress local(std::string_view text) {
    const IpAddress address = testing::address(text);
    LocalAddress out{};
    if (address.is_v4()) {
        out[10] = out[11] = 0xff;
    }
    std::copy_n(address.bytes.begin(), address.size(), out.end() - address.size());
    return out;
}

FileDescriptor listener() {
    FileDescriptor fd(check(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(53);
    check(bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), "bind");
    check(listen(fd.get(), 16), "listen");
    return fd;
}

class StatelessProgramsTest : public ::testing::TestWithParam<Family> {
protected:
    static void SetUpTestSuite() {
        why_not = reprise::testing::enter_network_namespace();
        if (why_not.empty()) {
            listening = std::make_unique<FileDescriptor>(listener());
        }
    }

    void SetUp() override {
        if (!why_not.empty()) {
            GTEST_SKIP() << why_not;
        }
        use(0, 64);
    }

    static void TearDownTestSuite() {
        loaded.clear();
        listening.reset();
    }

    /// The kernel takes half a second to verify the programs, so they are loaded once for all
    /// tests.
    void use(std::uint16_t truncate, std::uint32_t entries) {
        std::unique_ptr<Programs>& kept = loaded[{truncate, entries}];
        if (!kept) {
            kept = std::make_unique<Programs>(StatelessSettings{.port = htons(53),
                                                                .truncate = truncate,
                                                                .promote = 0,
                                                                .early_ack = 0,
                                                                .axfr_detect = 1,
                                                                .unused = 0},
                                              entries);
            kept->serve({local(kV4.server), local(kV6.server)});
        }
        programs_ = kept.get();
        programs_->expire([](const StatelessEntry&) { return true; });
        programs_->state() = {.keys = {{1, 0}, {0, 2}},
                              .current = 0,
                              .some_gone = 0,
                              .mss4 = 1'460,
                              .mss6 = 1'440,
                              .tx_was_on = 0,
                              .hooks_are_ours = 0};
        before_ = programs_->counts();
    }

    /// A TCP packet of the client.
    [[nodiscard]] Recipe of_client(std::uint8_t flags, std::uint32_t sequence,
                                   std::uint32_t acknowledgment, const Buffer& payload = {}) const {
        return {.source = GetParam().client,
                .destination = GetParam().server,
                .protocol = 6,
                .payload = payload,
                .tcp_flags = flags,
                .seq = sequence,
                .ack = acknowledgment,
                .window = 64'240};
    }

    [[nodiscard]] Recipe of_server(const Buffer& message) const {
        return {.source = GetParam().server,
                .destination = GetParam().client,
                .source_port = 53,
                .destination_port = 4'000,
                .payload = message};
    }

    static Done run(int program, const Buffer& packet, std::uint8_t destination = 0) {
        Buffer frame(kEthernet);
        std::fill_n(frame.begin(), 6, destination); // 0: the loopback's own address
        frame[12] = packet[0] >> 4U == 4 ? 0x08 : 0x86;
        frame[13] = packet[0] >> 4U == 4 ? 0x00 : 0xdd;
        frame.insert(frame.end(), packet.begin(), packet.end());
        std::array<std::uint8_t, 2'048> out{};
        bpf_test_run_opts options{};
        options.sz = sizeof options;
        options.data_in = frame.data();
        options.data_size_in = static_cast<std::uint32_t>(frame.size());
        options.data_out = out.data();
        options.data_size_out = out.size();
        options.repeat = 1;
        check(bpf_prog_test_run_opts(program, &options), "run a BPF program");
        Done done{.verdict = static_cast<int>(options.retval), .packet = {}};
        done.packet.assign(out.begin() + kEthernet, out.begin() + options.data_size_out);
        return done;
    }

    Done comes(const Buffer& packet) const { return run(programs_->in(), packet); }

    Done leaves(const Buffer& packet) const { return run(programs_->out(), packet); }

    /// What the client acknowledges with its query: the SYN/ACK's number and one.
    std::uint32_t handshake(std::uint16_t mss = 1'460) const {
        Recipe syn = of_client(0x02, kIrs, 0);
        syn.tcp_options = {1,
                           1,
                           4,
                           2,
                           2,
                           4,
                           static_cast<std::uint8_t>(mss >> 8U),
                           static_cast<std::uint8_t>(mss & 0xffU)};
        const Done done = comes(testing::make(syn));
        EXPECT_EQ(done.verdict, TC_ACT_REDIRECT);
        EXPECT_TRUE(testing::checksums_hold(done.packet));
        const size_t tcp = GetParam().header;
        EXPECT_EQ(done.packet.size(), tcp + 24);
        EXPECT_EQ(done.packet[tcp + 13], 0x12); // SYN and ACK
        EXPECT_EQ(number32(done.packet, tcp + 8), kIrs + 1);
        EXPECT_EQ(number32(done.packet, tcp + 20), 0x02040000U + (tcp == 20 ? 1'460 : 1'440));
        return number32(done.packet, tcp + 4) + 1;
    }

    Done asks(std::uint32_t acknowledgment, const Buffer& message) const {
        return comes(testing::make(of_client(0x18, kIrs + 1, acknowledgment, framed(message))));
    }

    [[nodiscard]] Buffer payload_of(const Buffer& packet, size_t header) const {
        return {packet.begin() + static_cast<std::ptrdiff_t>(GetParam().header + header),
                packet.end()};
    }

    [[nodiscard]] std::uint64_t count(unsigned which) const {
        return programs_->counts()[which] - before_[which];
    }

    /// How often connections were reset for a reason.
    [[nodiscard]] std::uint64_t resets(PromotionReason reason) const {
        return count(static_cast<unsigned>(kNotPromotedFirst) + static_cast<unsigned>(reason));
    }

    static inline std::string why_not;
    static inline std::unique_ptr<FileDescriptor> listening;
    static inline std::map<std::pair<std::uint16_t, std::uint32_t>, std::unique_ptr<Programs>>
        loaded; ///< by truncate and entries
    Programs* programs_ = nullptr;
    std::array<std::uint64_t, kCounts> before_{};
};

INSTANTIATE_TEST_SUITE_P(Families, StatelessProgramsTest, ::testing::Values(kV4, kV6),
                         [](const auto& family) { return std::string(family.param.name); });

// Names of all lengths: the parts of a checksum begin at even and at odd places.

TEST_P(StatelessProgramsTest, AQueryAndItsReplyWithoutEdns) {
    for (size_t letters = 1; letters <= 63; ++letters) {
        const std::uint32_t mine = handshake();
        const Buffer question = question_of(letters);
        const Done asked = asks(mine, query_of(question));
        ASSERT_EQ(asked.verdict, kPass);
        ASSERT_TRUE(testing::checksums_hold(asked.packet)) << letters;
        const std::uint16_t size = GetParam().header == 20 ? 1'458 : 1'438;
        EXPECT_THAT(payload_of(asked.packet, 8),
                    ElementsAreArray(query_of(question, opt_of(size))));

        const Done replied =
            leaves(testing::make(of_server(reply_of(question, 16 + letters % 3, opt_of(1'232)))));
        ASSERT_EQ(replied.verdict, kPass);
        ASSERT_TRUE(testing::checksums_hold(replied.packet)) << letters;
        const size_t tcp = GetParam().header;
        EXPECT_EQ(replied.packet[tcp + 13], 0x19); // FIN, PSH, ACK
        EXPECT_EQ(number32(replied.packet, tcp + 4), mine);
        EXPECT_EQ(number32(replied.packet, tcp + 8), kIrs + 1 + 2 + 12 + question.size());
        EXPECT_THAT(payload_of(replied.packet, 20),
                    ElementsAreArray(framed(reply_of(question, 16 + letters % 3, {}))));
    }
    EXPECT_EQ(count(kInserted), 63);
    EXPECT_EQ(count(kDeleted), 63);
}

TEST_P(StatelessProgramsTest, AQueryWithEdnsGetsTheSizeOfASegment) {
    for (size_t letters = 1; letters <= 63; ++letters) {
        const std::uint32_t mine = handshake(1'220);
        const Buffer question = question_of(letters);
        const Done asked = asks(mine, query_of(question, opt_of(512, true)));
        ASSERT_EQ(asked.verdict, kPass);
        ASSERT_TRUE(testing::checksums_hold(asked.packet)) << letters;
        EXPECT_THAT(payload_of(asked.packet, 8),
                    ElementsAreArray(query_of(question, opt_of(1'218, true))));
        const Buffer reply = reply_of(question, 100 + letters, opt_of(4'096, true));
        const Done replied = leaves(testing::make(of_server(reply)));
        ASSERT_TRUE(testing::checksums_hold(replied.packet)) << letters;
        EXPECT_THAT(payload_of(replied.packet, 20), ElementsAreArray(framed(reply)));
    }
}

TEST_P(StatelessProgramsTest, ASegmentWithoutItsChecksumBecomesADatagramWithOne) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(7);
    Buffer packet = testing::make(of_client(0x18, kIrs + 1, mine, framed(query_of(question))));
    // As a host on the same machine sends it: the sum of the pseudo header, not complemented.
    const size_t at = GetParam().header + 16;
    const size_t addresses = GetParam().header == 20 ? 12 : 8;
    std::uint32_t sum = 6 + static_cast<std::uint32_t>(packet.size() - GetParam().header);
    for (size_t i = addresses; i < GetParam().header; i += 2) {
        sum += std::uint32_t{packet[i]} << 8U | packet[i + 1];
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    packet[at] = static_cast<std::uint8_t>(sum >> 8U);
    packet[at + 1] = static_cast<std::uint8_t>(sum & 0xffU);
    const Done asked = comes(packet);
    ASSERT_EQ(asked.verdict, kPass);
    EXPECT_TRUE(testing::checksums_hold(asked.packet));
}

TEST_P(StatelessProgramsTest, AWrongChecksumStaysWrong) {
    const std::uint32_t mine = handshake();
    Buffer packet =
        testing::make(of_client(0x18, kIrs + 1, mine, framed(query_of(question_of(7)))));
    packet.back() ^= 1U;
    EXPECT_FALSE(testing::checksums_hold(comes(packet).packet));
}

TEST_P(StatelessProgramsTest, AQueryThatCameAgainIsAnsweredAgain) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(asks(mine, query_of(question)).verdict, kPass);
    }
    EXPECT_EQ(asks(mine, query_of(question)).verdict, TC_ACT_SHOT); // enough copies are under way
    const Buffer reply = testing::make(of_server(reply_of(question, 16, opt_of(1'232))));
    const Done first = leaves(reply);
    EXPECT_EQ(payload_of(leaves(reply).packet, 0), payload_of(first.packet, 0));
    EXPECT_EQ(payload_of(leaves(reply).packet, 0), payload_of(first.packet, 0));
    EXPECT_EQ(count(kDeleted), 1);
    EXPECT_EQ(leaves(reply).packet[GetParam().header == 20 ? 9 : 6], 17); // nobody waits for it
    EXPECT_EQ(count(kRetransmitted), 3);
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
        const Done done = comes(testing::make(of_client(0x18, kIrs + 1, mine, payload)));
        EXPECT_EQ(resets(reason), before + 1) << reason << " " << payload.size();
        EXPECT_EQ(done.verdict, TC_ACT_REDIRECT);
        ASSERT_EQ(done.packet.size(), GetParam().header + 20);
        EXPECT_EQ(done.packet[GetParam().header + 13], 0x04); // RST
        EXPECT_EQ(number32(done.packet, GetParam().header + 4), mine);
        EXPECT_TRUE(testing::checksums_hold(done.packet));
    }
    EXPECT_EQ(count(kInserted), 0);
}

TEST_P(StatelessProgramsTest, SegmentsThatAreNotAlone) {
    const Buffer payload = framed(query_of(question_of(3)));
    const std::uint32_t mine = handshake();
    Recipe segment = of_client(0x19, kIrs + 1, mine, payload);
    comes(testing::make(segment));
    EXPECT_EQ(resets(kFinished), 1);
    segment.tcp_flags = 0x18;
    segment.tcp_options = {1, 1, 1, 1};
    comes(testing::make(segment));
    EXPECT_EQ(resets(kSegmented), 1);
    segment.tcp_options = {};
    segment.window = 500;
    comes(testing::make(segment));
    EXPECT_EQ(resets(kWindow), 1);
}

TEST_P(StatelessProgramsTest, OnlyAHandshakeLetsDataIn) {
    const std::uint32_t mine = handshake();
    const Buffer payload = framed(query_of(question_of(3)));
    const Done refused = comes(testing::make(of_client(0x18, kIrs + 1, mine + 1, payload)));
    EXPECT_EQ(refused.verdict, TC_ACT_REDIRECT);
    EXPECT_EQ(refused.packet[GetParam().header + 13], 0x04);
    EXPECT_EQ(count(kRefusedCookies), 1);
    // Of the connection, but not its first byte: it comes again.
    EXPECT_EQ(comes(testing::make(of_client(0x18, kIrs + 2, mine, payload))).verdict, TC_ACT_SHOT);
    EXPECT_EQ(count(kWaiting), 1);
    EXPECT_EQ(count(kQueries), 0);
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
    EXPECT_EQ(count(kRefusedCookies), 1);
}

TEST_P(StatelessProgramsTest, TheEndOfAConnection) {
    const std::uint32_t mine = handshake();
    const size_t tcp = GetParam().header;
    EXPECT_EQ(comes(testing::make(of_client(0x10, kIrs + 1, mine))).verdict, TC_ACT_SHOT);
    EXPECT_EQ(count(kHandshakeAck), 1);
    const Done probe = comes(testing::make(of_client(0x10, kIrs, mine)));
    EXPECT_EQ(probe.verdict, TC_ACT_REDIRECT) << "keepalive";
    EXPECT_EQ(number32(probe.packet, tcp + 4), mine);
    EXPECT_EQ(number32(probe.packet, tcp + 8), kIrs + 1);
    const Done early = comes(testing::make(of_client(0x11, kIrs + 1, mine)));
    EXPECT_EQ(early.packet[tcp + 13], 0x11) << "a client that leaves without a query";
    const Done late = comes(testing::make(of_client(0x11, kIrs + 30, mine + 100)));
    EXPECT_EQ(late.packet[tcp + 13], 0x11);
    EXPECT_EQ(number32(late.packet, tcp + 4), mine + 100);
    EXPECT_EQ(number32(late.packet, tcp + 8), kIrs + 31);
    EXPECT_TRUE(testing::checksums_hold(late.packet));
}

TEST_P(StatelessProgramsTest, AHalfClosedConnectionsReplyAcknowledgesTheFin) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    const std::uint32_t next =
        kIrs + 1 + static_cast<std::uint32_t>(framed(query_of(question)).size());
    const Done fin_first = comes(testing::make(of_client(0x11, next, mine)));
    EXPECT_EQ(fin_first.verdict, TC_ACT_SHOT) << "its query has not come yet";
    asks(mine, query_of(question));
    EXPECT_EQ(comes(testing::make(of_client(0x11, next, mine))).verdict, TC_ACT_SHOT);
    const Done replied = leaves(testing::make(of_server(reply_of(question, 4, opt_of(1'232)))));
    EXPECT_EQ(number32(replied.packet, GetParam().header + 8), next + 1);
}

TEST_P(StatelessProgramsTest, ATruncatedReplyBringsTheQueryBack) {
    for (size_t letters = 1; letters <= 63; letters += 2) {
        for (const bool edns : {false, true}) {
            const std::uint32_t mine = handshake();
            const Buffer query =
                query_of(question_of(letters), edns ? opt_of(1'232, true) : Buffer{});
            ASSERT_EQ(asks(mine, query).verdict, kPass);
            const Done again = leaves(
                testing::make(of_server(reply_of(question_of(letters), 0, opt_of(1'232), true))));
            ASSERT_EQ(again.verdict, TC_ACT_REDIRECT);
            ASSERT_TRUE(testing::checksums_hold(again.packet)) << letters;
            Recipe same = of_client(0x18, kIrs + 1, mine, framed(query));
            same.window = 14'600;
            EXPECT_EQ(payload_of(again.packet, 0), payload_of(testing::make(same), 0)) << letters;
            const std::uint64_t before = resets(kTruncated);
            EXPECT_EQ(comes(again.packet).verdict, TC_ACT_REDIRECT); // not promoted: reset
            EXPECT_EQ(resets(kTruncated), before + 1);
        }
    }
    EXPECT_EQ(count(kInserted), count(kDeleted));
}

TEST_P(StatelessProgramsTest, RepliesThatDoNotFit) {
    const Buffer question = question_of(3);
    const std::uint32_t mine = handshake(1'220);
    asks(mine, query_of(question));
    EXPECT_EQ(leaves(testing::make(of_server(reply_of(question, 1'210, opt_of(1'232))))).verdict,
              TC_ACT_REDIRECT);
    asks(mine, query_of(question));
    EXPECT_EQ(resets(kLong), 1);
    const std::uint32_t second = handshake();
    asks(second, query_of(question));
    const Buffer unlike = joined({reply_of(question, 16, opt_of(1'232)), {0, 0, 1}});
    EXPECT_EQ(leaves(testing::make(of_server(unlike))).verdict, TC_ACT_REDIRECT);
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
    const std::uint32_t theirs =
        number32(comes(testing::make(other)).packet, GetParam().header + 4) + 1;
    other = of_client(0x18, kIrs + 1, theirs, framed(query_of(question)));
    other.source_port = 4'001;
    comes(testing::make(other));
    EXPECT_EQ(resets(kFull), 1);
    EXPECT_EQ(leaves(testing::make(of_server(reply_of(question, 4, opt_of(1'232)))))
                  .packet[GetParam().header == 20 ? 9 : 6],
              6);
}

TEST_P(StatelessProgramsTest, LongRepliesOverUdpAreTruncatedWhereAsked) {
    use(512, 64);
    for (size_t letters = 1; letters <= 63; ++letters) {
        const Buffer question = question_of(letters);
        const Buffer opt = opt_of(1'232, true, Buffer(letters % 5 * 4, 9));
        const Done done = leaves(testing::make(of_server(reply_of(question, 600, opt))));
        ASSERT_EQ(done.verdict, kPass);
        ASSERT_TRUE(testing::checksums_hold(done.packet)) << letters;
        EXPECT_THAT(payload_of(done.packet, 8), ElementsAreArray(reply_of(question, 0, opt, true)));
    }
    EXPECT_EQ(count(kTruncatedUdp), 63);
    const Buffer small = testing::make(of_server(reply_of(question_of(3), 400, opt_of(1'232))));
    EXPECT_EQ(leaves(small).packet, small);
}

TEST_P(StatelessProgramsTest, ReplyInFragments) {
    use(512, 64);
    const Buffer question = question_of(9);
    const Buffer reply = testing::make(of_server(reply_of(question, 3'000, opt_of(4'096))));
    for (const bool over_tcp : {false, true}) {
        if (over_tcp) {
            asks(handshake(), query_of(question));
        }
        const std::vector<Buffer> pieces = fragments_of(reply, 1'400);
        const Done first = leaves(pieces[0]);
        ASSERT_TRUE(testing::checksums_hold(first.packet));
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
    Recipe other = of_server(Buffer(3'000, 1));
    other.source_port = 54;
    for (const Buffer& piece : fragments_of(testing::make(other), 1'400)) {
        Buffer another = piece;
        another[GetParam().header == 20 ? 5 : 47] ^= 1U; // the identification of another datagram
        if (GetParam().header == 40) {
            EXPECT_EQ(leaves(another).packet, another);
        }
    }
}

/// A second copy of a query may get another reply, which has no place any more.
TEST_P(StatelessProgramsTest, OfTwoRepliesTheFirstCounts) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    for (int i = 0; i < 3; ++i) {
        asks(mine, query_of(question));
    }
    EXPECT_EQ(leaves(testing::make(of_server(reply_of(question, 16, opt_of(1'232))))).verdict,
              kPass);
    const Done cut = leaves(testing::make(of_server(reply_of(question, 0, opt_of(1'232), true))));
    EXPECT_EQ(cut.verdict, TC_ACT_STOLEN);
    const Buffer next = framed(query_of(question));
    const auto behind = static_cast<std::uint32_t>(kIrs + 1 + next.size());
    comes(testing::make(of_client(0x18, behind, mine, next))); // another query
    EXPECT_EQ(leaves(testing::make(of_server(reply_of(question, 16, opt_of(1'232))))).verdict,
              kPass);
    EXPECT_EQ(count(kDropped), 1);
    EXPECT_EQ(count(kDeleted), 1);
    EXPECT_EQ(count(kQueries), 3);
}

TEST_P(StatelessProgramsTest, LateRepliesDoNotLeave) {
    const Buffer question = question_of(3);
    asks(handshake(), query_of(question));
    EXPECT_EQ(programs_->expire([](const StatelessEntry&) { return true; }), 1);
    const Buffer reply = testing::make(of_server(reply_of(question, 16, opt_of(1'232))));
    EXPECT_EQ(leaves(reply).verdict, TC_ACT_STOLEN);
    EXPECT_EQ(count(kLate), 1);
    Buffer other = reply_of(question, 16, {});
    other[0] ^= 1U; // another message
    EXPECT_EQ(leaves(testing::make(of_server(other))).verdict, kPass);
}

TEST_P(StatelessProgramsTest, FragmentsOfAReplyThatNobodyWantsDoNotLeave) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    asks(mine, query_of(question));
    const auto next = static_cast<std::uint32_t>(kIrs + 1 + framed(query_of(question)).size());
    comes(testing::make(of_client(0x04, next, mine))); // RST
    const Buffer reply = testing::make(of_server(reply_of(question, 3'000, opt_of(4'096))));
    for (const Buffer& piece : fragments_of(reply, 1'400)) {
        EXPECT_EQ(leaves(piece).verdict, TC_ACT_STOLEN);
    }
    EXPECT_EQ(count(kDeleted), 1);
}

TEST_P(StatelessProgramsTest, AServerWithoutEdnsIsAskedOverTcp) {
    const std::uint32_t mine = handshake();
    const Buffer question = question_of(3);
    asks(mine, query_of(question));
    Buffer refused = reply_of(question, 0, {});
    refused[3] = 0x81; // FORMERR
    EXPECT_EQ(leaves(testing::make(of_server(refused))).verdict, TC_ACT_REDIRECT);
    asks(mine, query_of(question));
    EXPECT_EQ(resets(kOpt), 1);
}

/// A whole checksum that is the pseudo header's sum by chance.
TEST_P(StatelessProgramsTest, AWholeChecksumThatLooksPartial) {
    Recipe syn = of_client(0x02, 0, 0);
    syn.tcp_options = {2, 4, 5, 0xb4};
    const size_t at = GetParam().header + 16;
    const size_t addresses = GetParam().header == 20 ? 12 : 8;
    int seen = 0;
    for (syn.seq = 0; syn.seq < 70'000; ++syn.seq) {
        const Buffer packet = testing::make(syn);
        std::uint32_t sum = 6 + static_cast<std::uint32_t>(packet.size() - GetParam().header);
        for (size_t i = addresses; i < GetParam().header; i += 2) {
            sum += std::uint32_t{packet[i]} << 8U | packet[i + 1];
        }
        sum = (sum & 0xffffU) + (sum >> 16U);
        if (packet[at] == sum >> 8U && packet[at + 1] == (sum & 0xffU)) {
            EXPECT_TRUE(testing::checksums_hold(comes(packet).packet));
            ++seen;
        }
    }
    EXPECT_GE(seen, 1);
}

TEST_P(StatelessProgramsTest, FramesForOthersPass) {
    Recipe syn = of_client(0x02, kIrs, 0);
    syn.tcp_options = {2, 4, 5, 0xb4};
    const Buffer packet = testing::make(syn);
    EXPECT_EQ(run(programs_->in(), packet, 0xff).packet, packet);
}

TEST_P(StatelessProgramsTest, OthersPacketsPass) {
    Recipe other = of_client(0x02, kIrs, 0);
    other.destination_port = 80;
    Buffer packet = testing::make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    other = of_client(0x02, kIrs, 0);
    other.destination = GetParam().header == 20 ? "192.0.2.1" : "2001:db8::1"; // not of this host
    packet = testing::make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    other = of_client(0x18, kIrs, 7, {0, 1, 2});
    other.destination = GetParam().header == 20 ? "192.0.2.1" : "2001:db8::1";
    packet = testing::make(other);
    EXPECT_EQ(comes(packet).packet, packet);
    packet = testing::make(of_server(reply_of(question_of(3), 4, {})));
    EXPECT_EQ(leaves(packet).packet, packet);
}

/// Packets of a connection with bytes of it changed: whatever comes out has right checksums where
/// it went in with right ones, and the counts of entries stay true.
TEST_P(StatelessProgramsTest, ChangedPackets) {
    std::mt19937_64 random(7);
    const std::uint64_t removed = programs_->removed();
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
            sent.payload[random() % sent.payload.size()] ^= 1U << random() % 8;
        }
        sent.payload.resize(sent.payload.size() - random() % 2 * (random() % 12));
        if (sent.protocol == 6 && random() % 4 == 0) {
            sent.tcp_flags = static_cast<std::uint8_t>(random());
        }
        const Done done = run(i % 2 == 0 ? programs_->in() : programs_->out(), testing::make(sent));
        ASSERT_THAT(done.verdict,
                    ::testing::AnyOf(kPass, TC_ACT_SHOT, TC_ACT_STOLEN, TC_ACT_REDIRECT));
        if (done.verdict == kPass || done.verdict == TC_ACT_REDIRECT) {
            ASSERT_TRUE(testing::checksums_hold(done.packet)) << i;
        }
        programs_->expire([](const StatelessEntry&) { return true; });
        ASSERT_EQ(count(kInserted), count(kDeleted) + programs_->removed() - removed) << i;
    }
}

} // namespace
} // namespace reprise::proxy
