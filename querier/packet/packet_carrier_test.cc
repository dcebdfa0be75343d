// The packet transport against a server in another network namespace.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/testing/netns.hh"
#include "querier/carrier/carrier.hh"
#include "querier/packet/packet_carrier.hh"
#include "querier/packet/receive.h"
#include "querier/packet/route.hh"
#include "querier/packet/testing/bed.hh"
#include "querier/packet/testing/client.hh"
#include "querier/packet/xdp.hh"
#include "querier/results/results.hh"
#include "querier/testing/messages.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <set>
#include <string>
#include <system_error>
#include <vector>

namespace reprise::querier::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint8_t> echo(Bytes query) { return make_reply(query); }

/// An answer of a size, whatever the query.
PacketBed::Answer sized(size_t size) {
    return [size](Bytes query) {
        auto reply = make_reply(query);
        reply.resize(size, 0x5a);
        return reply;
    };
}

class PacketCarrierTest : public ::testing::Test {
protected:
    void SetUp() override {
        if (const std::string why = reprise::testing::enter_network_namespace(); !why.empty()) {
            GTEST_SKIP() << why;
        }
        try {
            const XdpReceiver receiver(PacketBed::servers(), 1, false);
        } catch (const std::system_error& error) {
            GTEST_SKIP() << error.what();
        }
    }

    static void expect_all_sources(PacketBed& bed, const Client& client, std::uint32_t count) {
        std::multiset<Endpoint> wanted;
        std::multiset<Owner> owners;
        for (std::uint32_t n = 0; n < count; ++n) {
            for (const std::uint8_t family : {std::uint8_t{4}, std::uint8_t{6}}) {
                wanted.insert(source_number(n, family));
                owners.insert(owner_of(source_number(n, family)));
            }
        }
        const auto seen = bed.seen();
        EXPECT_EQ(std::multiset<Endpoint>(seen.begin(), seen.end()), wanted);
        std::multiset<Owner> heard;
        for (const auto& reply : client.heard.replies) {
            heard.insert(reply.owner);
        }
        EXPECT_EQ(heard, owners);
    }
};

TEST_F(PacketCarrierTest, SendsFromTheTracesOwnAddressesAndPorts) {
    PacketBed bed(echo);
    Client client(kQuick);
    client.send(bed, 1000, 4);
    client.send(bed, 1000, 6);
    ASSERT_TRUE(client.await_replies(2000)) << client.heard.replies.size();
    expect_all_sources(bed, client, 1000);
    EXPECT_EQ(client.heard.sent.size(), 2000U);
    EXPECT_TRUE(client.heard.refused.empty());
    EXPECT_EQ(client.statistics.unmatched, 0U);
    EXPECT_EQ(client.statistics.unreachable, 0U);
    EXPECT_EQ(client.heard.replies[5].bytes, echo(make_message(5, "a.example.")));
}

TEST_F(PacketCarrierTest, HandsOverWholeReplies) {
    PacketBed bed(sized(1200));
    Client client(kWhole);
    client.send(bed, 300, 4);
    client.send(bed, 300, 6);
    ASSERT_TRUE(client.await_replies(600));
    expect_all_sources(bed, client, 300);
    for (const auto& reply : client.heard.replies) {
        EXPECT_EQ(reply.bytes.size(), 1200U);
    }
    EXPECT_EQ(client.statistics.unmatched, 0U);
    EXPECT_EQ(client.statistics.frames_taken, 0U) << "the stack has them, too";
}

TEST_F(PacketCarrierTest, StampsLieBetweenSendingAndFetching) {
    PacketBed bed(echo);
    for (const auto& options : {kQuick, kWhole}) {
        Client client(options);
        client.send(bed, 1, 4);
        ASSERT_TRUE(client.await_replies(1));
        EXPECT_GE(client.heard.replies[0].received, client.heard.last_sent);
        EXPECT_LE(client.heard.replies[0].received, SteadyClock::now());
    }
}

TEST_F(PacketCarrierTest, HandsOverTheBeginningOfLongReplies) {
    PacketBed bed(sized(1200));
    Client client(kQuick);
    client.send(bed, 1, 6);
    ASSERT_TRUE(client.await_replies(1));
    const auto whole = sized(1200)(make_message(0, "a.example."));
    EXPECT_EQ(client.heard.replies[0].size, 1200U);
    EXPECT_TRUE(
        std::ranges::equal(client.heard.replies[0].bytes, Bytes(whole).first(kReplyPrefix)));
}

/// However long the name is; or the answers could not be told apart.
TEST_F(PacketCarrierTest, HandsOverTheWholeQuestion) {
    PacketBed bed(echo);
    Client client(kQuick);
    const std::string label(55, 'x');
    std::vector<std::vector<std::uint8_t>> messages;
    for (std::uint16_t n = 0; n < 60; ++n) { // names of 3 to 230 bytes
        std::string name = std::string(1 + n, 'a').substr(0, 60) + ".";
        for (int more = 0; more < n % 4; ++more) {
            name += label + ".";
        }
        messages.push_back(make_message(n, name));
        ASSERT_EQ(client.stage(source_number(n, n % 2 == 0 ? 4 : 6), messages.back()),
                  SendResult::kStaged);
    }
    client.carrier->flush();
    ASSERT_TRUE(client.await_replies(messages.size()));
    for (const auto& reply : client.heard.replies) {
        const auto whole = echo(messages.at(reply.bytes[1]));
        EXPECT_EQ(reply.size, whole.size());
        EXPECT_EQ(reply.bytes, whole);
    }
}

TEST_F(PacketCarrierTest, HandsOverShortReplies) {
    std::atomic<size_t> size = 12;
    PacketBed bed([&](Bytes query) { return sized(size++)(query); });
    Client client(kQuick);
    client.send(bed, 80, 4);
    ASSERT_TRUE(client.await_replies(80));
    for (size_t n = 0; n < 80; ++n) {
        const auto wanted =
            sized(12 + n)(make_message(static_cast<std::uint16_t>(n), "a.example."));
        const auto& heard = client.heard.replies[n];
        EXPECT_EQ(heard.size, 12 + n);
        EXPECT_TRUE(std::ranges::equal(heard.bytes, Bytes(wanted).first(heard.bytes.size())));
    }
}

TEST_F(PacketCarrierTest, PutsFragmentedRepliesTogether) {
    PacketBed bed(sized(4096));
    for (const auto& options : {kQuick, kWhole}) {
        Client client(options);
        client.send(bed, 20, 4);
        client.send(bed, 20, 6);
        ASSERT_TRUE(client.await_replies(40));
        for (const auto& reply : client.heard.replies) {
            EXPECT_EQ(reply.bytes.size(), 4096U);
            EXPECT_EQ(reply.size, 4096U);
        }
        EXPECT_EQ(client.statistics.unmatched, 0U);
    }
}

TEST_F(PacketCarrierTest, CountsTooShortMessagesAsUnmatchedOrHandsThemOver) {
    PacketBed bed(sized(5));
    Client client(kQuick);
    client.send(bed, 3, 4);
    ASSERT_TRUE(client.await_replies(3));
    EXPECT_EQ(client.heard.replies[0].size, 5U);
}

TEST_F(PacketCarrierTest, CountsUnreachablePorts) {
    PacketBed bed(echo);
    const Servers elsewhere{.v4 = Endpoint{.address = PacketBed::server_of(4).address, .port = 54},
                            .v6 = Endpoint{.address = PacketBed::server_of(6).address, .port = 54}};
    Client client(kQuick, elsewhere);
    const auto message = make_message(1, "a.example.");
    ASSERT_EQ(client.stage(source_number(1, 4), message), SendResult::kStaged);
    ASSERT_EQ(client.stage(source_number(1, 6), message), SendResult::kStaged);
    client.carrier->flush();
    EXPECT_TRUE(client.wait([&] {
        client.poll();
        return client.statistics.unreachable == 2;
    })) << client.statistics.unreachable;
}

TEST_F(PacketCarrierTest, CountsRepliesThatFoundNoRoom) {
    PacketBed bed(sized(1400));
    Client client(packet_options(1, true));
    client.send(bed, 1000, 4);
    EXPECT_TRUE(client.wait([&] {
        client.poll();
        client.statistics.receive_overflows = 0;
        client.carrier->count_drops();
        return client.heard.replies.size() + client.statistics.receive_overflows == 1000;
    })) << client.heard.replies.size();
    EXPECT_GT(client.statistics.receive_overflows, 0U);
}

TEST_F(PacketCarrierTest, WakesOnlyWhileThereIsSomethingToFetch) {
    PacketBed bed(echo);
    Client client(kQuick);
    const Nanoseconds now = SteadyClock::now();
    EXPECT_GT(client.carrier->next_wake(now), now + kPatience);
    client.send(bed, 1, 4);
    ASSERT_TRUE(client.await_replies(1));
    EXPECT_LE(client.carrier->next_wake(now), SteadyClock::now() + kMillisecond);
    client.carrier->release(0);
    EXPECT_GT(client.carrier->next_wake(now), SteadyClock::now() + kMillisecond);
}

TEST_F(PacketCarrierTest, RefusesWhatNoFrameCarries) {
    PacketBed bed(echo);
    Client client(kQuick);
    EXPECT_EQ(client.stage(source_number(1, 4), std::vector<std::uint8_t>(1472)),
              SendResult::kStaged);
    EXPECT_EQ(client.stage(source_number(1, 4), std::vector<std::uint8_t>(1473)),
              SendResult::kOversize);
    EXPECT_EQ(client.stage(source_number(1, 6), std::vector<std::uint8_t>(1453)),
              SendResult::kOversize);
    client.carrier->flush();
    EXPECT_EQ(client.heard.sent.size(), 1U);
}

TEST_F(PacketCarrierTest, RefusesWhatIsLongerThanAChunk) {
    PacketBed bed(echo);
    run("ip link set data mtu 3000");
    Client client(kQuick);
    EXPECT_EQ(client.stage(source_number(1, 4), std::vector<std::uint8_t>(2006)),
              SendResult::kStaged);
    EXPECT_EQ(client.stage(source_number(1, 4), std::vector<std::uint8_t>(2007)),
              SendResult::kOversize);
}

/// Over links of ordinary and of larger packets.
class SenderTest : public PacketCarrierTest, public ::testing::WithParamInterface<int> {
protected:
    static std::string mtu() { return "ip link set data mtu " + std::to_string(GetParam()); }

    /// Each of `count` queries fails.
    static void expect_failures(Client& client, std::uint32_t count) {
        client.heard.refused.clear();
        for (std::uint32_t n = 0; n < count; ++n) {
            const auto message = make_message(static_cast<std::uint16_t>(n), "a.example.");
            ASSERT_EQ(client.stage(source_number(n, 4), message), SendResult::kStaged);
        }
        client.carrier->flush();
        EXPECT_EQ(client.heard.refused, std::vector(count, SendResult::kFailed));
    }
};

TEST_P(SenderTest, SendsFromTheTracesOwnAddressesAndPorts) {
    PacketBed bed(echo);
    run(mtu());
    Client client(kQuick);
    client.send(bed, 500, 4);
    client.send(bed, 500, 6);
    ASSERT_TRUE(client.await_replies(1000));
    expect_all_sources(bed, client, 500);
}

TEST_P(SenderTest, FailsQueriesWhileTheLinkIsDownAndGoesOnAfterward) {
    PacketBed bed(echo);
    run(mtu());
    Client client(kQuick);
    for (int round = 0; round < 10; ++round) {
        run("ip link set data down");
        expect_failures(client, 40);
        run("ip link set data up; ip route add 198.19.255.53 via 198.19.1.2");
        bed.on_server("ip link set server down");
        expect_failures(client, 40);
        bed.on_server("ip link set server up; ip route add 10.0.0.0/8 via 198.19.1.1");
        client.send(bed, 32, 4);
        ASSERT_TRUE(client.await_replies(static_cast<size_t>(32 * (round + 1))));
    }
    EXPECT_EQ(client.heard.sent.size(), 320U);
}

INSTANTIATE_TEST_SUITE_P(Senders, SenderTest, ::testing::Values(1500, 3000));

template <typename Body> std::string error_of(Body body) {
    try {
        body();
        return "";
    } catch (const std::exception& error) {
        return error.what();
    }
}

TEST_F(PacketCarrierTest, LeavesNoProgramBehindWhenKilled) {
    PacketBed bed(echo);
    const PacketRoute route = find_packet_route(PacketBed::server_of(4).address, kPatience);
    Holder holder;
    ASSERT_TRUE(holder.ready());
    const auto found = [&] { return error_of([&] { refuse_foreign_program(route); }); };
    EXPECT_THAT(found(), HasSubstr("reprise_receive"));
    holder.kill();
    EXPECT_TRUE(Client::wait([&] { return found().empty(); }));
    Client client(kQuick);
    client.send(bed, 10, 4);
    EXPECT_TRUE(client.await_replies(10));
}

TEST_F(PacketCarrierTest, RefusesASecondQuerierOfTheHost) {
    PacketBed bed(echo);
    Holder holder;
    ASSERT_TRUE(holder.ready());
    EXPECT_THAT(error_of([] { const Client client(kQuick); }), HasSubstr("--queriers 1"));
    holder.kill();
    EXPECT_EQ(error_of([] { const Client client(kQuick); }), "");
}

/// An XDP program that lets all pass.
FileDescriptor foreign_program() {
    const std::array<bpf_insn, 2> lines{
        bpf_insn{.code = BPF_ALU64 | BPF_MOV | BPF_K,
                 .dst_reg = 0,
                 .src_reg = 0,
                 .off = 0,
                 .imm = XDP_PASS},
        bpf_insn{.code = BPF_JMP | BPF_EXIT, .dst_reg = 0, .src_reg = 0, .off = 0, .imm = 0}};
    return FileDescriptor(
        bpf_prog_load(BPF_PROG_TYPE_XDP, "leftover", "GPL", lines.data(), lines.size(), nullptr));
}

TEST_F(PacketCarrierTest, NamesAnXdpProgramOfSomebodyElse) {
    PacketBed bed(echo);
    const PacketRoute route = find_packet_route(PacketBed::server_of(4).address, kPatience);
    const FileDescriptor program = foreign_program();
    const auto interface = static_cast<int>(route.interface);
    ASSERT_EQ(bpf_xdp_attach(interface, program.get(), XDP_FLAGS_DRV_MODE, nullptr), 0);
    const std::string error = error_of([] { const Client client(kQuick); });
    EXPECT_THAT(error, HasSubstr("leftover"));
    EXPECT_THAT(error, HasSubstr("ip link set dev data xdp off"));
    run("ip link set dev data xdp off");
    EXPECT_EQ(error_of([] { const Client client(kQuick); }), "");
}

TEST_F(PacketCarrierTest, ExplainsRoutesItCannotUse) {
    PacketBed bed(echo);
    const auto error = [](const char* server) {
        return error_of(
            [&] { const Client client(kQuick, {.v4 = Endpoint::parse(server), .v6 = {}}); });
    };
    EXPECT_THAT(error("127.0.0.1:53"), HasSubstr("address of this host"));
    EXPECT_THAT(error("198.19.1.1:53"), HasSubstr("address of this host"));
    EXPECT_THAT(error("203.0.113.1:53"), HasSubstr("no route"));
    EXPECT_THAT(error("198.19.1.77:53"), HasSubstr("198.19.1.77 on data does not answer"));
    EXPECT_EQ(error("198.19.1.2:53"), "");
}

TEST_F(PacketCarrierTest, SaysThatItNeedsXdp) {
    PacketBed bed(echo);
    const FrameSender other(find_packet_route(PacketBed::server_of(4).address, kPatience));
    EXPECT_THAT(error_of([] { const Client client(kQuick); }),
                HasSubstr("source mode packet needs XDP: bind an XDP socket to data"));
}

TEST_F(PacketCarrierTest, RefusesToRunWhereRepliesWouldBeForwarded) {
    PacketBed bed(echo);
    run("sysctl -qw net/ipv4/conf/data/forwarding=1");
    const std::string error = error_of([] { const Client client(kQuick); });
    EXPECT_THAT(error, HasSubstr("sysctl -w net/ipv4/conf/data/forwarding=0"));
}

} // namespace
} // namespace reprise::querier::testing
