#pragma once
// The BPF programs by the kernel's own test runner: one packet in, a verdict and a packet out.
// Connections are not given to the kernel's TCP there; tests with real hosts show that.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/testing/netns.hh"
#include "proxy/stateless/bpf/programs.hh"
#include "proxy/stateless/bpf/shared.h"
#include "proxy/stateless/common/counts.h"
#include "proxy/testing/packets.hh"

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
#include <linux/types.h>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <tuple>
#include <vector>

namespace reprise::proxy::testing {

inline constexpr std::uint32_t kIrs = 0x01020304; ///< initial sequence number of the clients
inline constexpr size_t kEthernet = 14;
inline constexpr int kPass = -1; // TC_ACT_UNSPEC

struct Family {
    std::string_view name;
    std::string_view client;
    std::string_view server;
    size_t header; ///< bytes of the IP header
};

inline constexpr Family kV4{
    .name = "IPv4", .client = "127.0.0.9", .server = "127.0.0.1", .header = 20};
inline constexpr Family kV6{.name = "IPv6", .client = "2001:db8::9", .server = "::1", .header = 40};

struct Done {
    int verdict = 0;
    Buffer packet; ///< without its Ethernet header
};

inline Buffer joined(std::initializer_list<Buffer> parts) {
    Buffer all;
    for (const Buffer& part : parts) {
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

/// A name of one label.
inline Buffer name_of(size_t letters) {
    Buffer name(letters + 2, 'x');
    name.front() = static_cast<std::uint8_t>(letters);
    name.back() = 0;
    return name;
}

inline Buffer question_of(size_t letters, std::uint8_t type = 1) {
    return joined({name_of(letters), {0, type, 0, 1}});
}

inline Buffer opt_of(std::uint16_t size, bool dnssec_ok = false, const Buffer& options = {}) {
    return joined(
        {{0, 0, 41, static_cast<std::uint8_t>(size >> 8U), static_cast<std::uint8_t>(size & 0xffU),
          0, 0, static_cast<std::uint8_t>(dnssec_ok ? 0x80 : 0), 0, 0,
          static_cast<std::uint8_t>(options.size())},
         options});
}

/// RD set; without `opt` where it is empty.
inline Buffer query_of(const Buffer& question, const Buffer& opt = {}) {
    return joined(
        {{0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(opt.empty() ? 0 : 1)},
         question,
         opt});
}

/// With an answer of `answer` bytes, which are not looked at.
inline Buffer reply_of(const Buffer& question, size_t answer, const Buffer& opt,
                       bool truncated = false) {
    return joined({{0xab, 0xcd, static_cast<std::uint8_t>(truncated ? 0x83 : 0x81), 0x80, 0, 1, 0,
                    static_cast<std::uint8_t>(answer == 0 ? 0 : 1), 0, 0, 0,
                    static_cast<std::uint8_t>(opt.empty() ? 0 : 1)},
                   question,
                   Buffer(answer, 0x5a),
                   opt});
}

inline Buffer framed(const Buffer& message) {
    return joined({{static_cast<std::uint8_t>(message.size() >> 8U),
                    static_cast<std::uint8_t>(message.size() & 0xffU)},
                   message});
}

inline std::uint32_t number32(const Buffer& packet, size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, packet.data() + at, sizeof value);
    return ntohl(value);
}

/// IP fragments of a packet, of `size` bytes each (a multiple of 8).
inline std::vector<Buffer> fragments_of(const Buffer& packet, size_t size) {
    if (packet[0] >> 4U == 4) {
        return fragment_v4(packet, size);
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

inline LocalAddress local(std::string_view text) {
    const IpAddress parsed = address(text);
    LocalAddress out{};
    if (parsed.is_v4()) {
        out[10] = out[11] = 0xff;
    }
    std::copy_n(parsed.bytes.begin(), parsed.size(), out.end() - parsed.size());
    return out;
}

inline FileDescriptor listener() {
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
    void use(std::uint16_t truncate, std::uint32_t entries, std::uint8_t timed = 0) {
        std::unique_ptr<Programs>& kept = loaded[{truncate, entries, timed}];
        if (!kept) {
            kept = std::make_unique<Programs>(StatelessSettings{.port = htons(53),
                                                                .truncate = truncate,
                                                                .promote = 0,
                                                                .early_ack = 0,
                                                                .axfr_detect = 1,
                                                                .timed = timed},
                                              entries);
            kept->serve({local(kV4.server), local(kV6.server)});
        }
        programs_ = kept.get();
        programs_->expire(-1);
        programs_->state() = {.keys = {{1, 0}, {0, 2}},
                              .current = 0,
                              .some_gone = 0,
                              .mss4 = 1'460,
                              .mss6 = 1'440,
                              .in_flight = 0,
                              .most_in_flight = 0,
                              .lived = 0};
        before_ = counts();
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

    /// The sum of a TCP packet's pseudo header: the checksum of one that is to be completed on its
    /// way.
    static std::uint32_t partial(const Buffer& packet) {
        const size_t header = GetParam().header;
        std::uint32_t sum = 6 + static_cast<std::uint32_t>(packet.size() - header);
        for (size_t i = header == 20 ? 12 : 8; i < header; i += 2) {
            sum += std::uint32_t{packet[i]} << 8U | packet[i + 1];
        }
        return (sum & 0xffffU) + (sum >> 16U);
    }

    /// Its checksum.
    static std::uint32_t whole(const Buffer& packet) {
        return packet[GetParam().header + 16] * 256U + packet[GetParam().header + 17];
    }

    /// What a word that is 0 in the packet has to be for a whole checksum that looks partial.
    static std::uint16_t word_for_partial(const Buffer& packet) {
        const std::uint32_t sum = (~partial(packet) & 0xffffU) + whole(packet);
        return static_cast<std::uint16_t>((sum & 0xffffU) + (sum >> 16U));
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
        const Done done = comes(make(syn));
        EXPECT_EQ(done.verdict, TC_ACT_REDIRECT);
        EXPECT_TRUE(checksums_hold(done.packet));
        const size_t tcp = GetParam().header;
        EXPECT_EQ(done.packet.size(), tcp + 24);
        EXPECT_EQ(done.packet[tcp + 13], 0x12); // SYN and ACK
        EXPECT_EQ(number32(done.packet, tcp + 8), kIrs + 1);
        EXPECT_EQ(number32(done.packet, tcp + 20), 0x02040000U + (tcp == 20 ? 1'460 : 1'440));
        return number32(done.packet, tcp + 4) + 1;
    }

    Done asks(std::uint32_t acknowledgment, const Buffer& message) const {
        return comes(make(of_client(0x18, kIrs + 1, acknowledgment, framed(message))));
    }

    [[nodiscard]] Buffer payload_of(const Buffer& packet, size_t header) const {
        return {packet.begin() + static_cast<std::ptrdiff_t>(GetParam().header + header),
                packet.end()};
    }

    [[nodiscard]] StatelessCounts counts() const {
        return programs_->counts().value_or(StatelessCounts{});
    }

    [[nodiscard]] std::uint64_t count(__u64 StatelessCounts::* which) const {
        return counts().*which - before_.*which;
    }

    /// How often connections were reset for a reason.
    [[nodiscard]] std::uint64_t resets(PromotionReason reason) const {
        return counts().not_promoted[reason] - before_.not_promoted[reason];
    }

    static inline std::string why_not;
    static inline std::unique_ptr<FileDescriptor> listening;
    static inline std::map<std::tuple<std::uint16_t, std::uint32_t, std::uint8_t>,
                           std::unique_ptr<Programs>>
        loaded; ///< by truncate, entries and timed
    Programs* programs_ = nullptr;
    StatelessCounts before_{};
};

} // namespace reprise::proxy::testing
