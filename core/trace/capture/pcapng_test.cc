// pcapng as several programs write it, and everything that can be wrong with it.
#include "core/base/clock.hh"
#include "core/trace/testing/compress.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/packets.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::uint64_t kSeconds = 1'475'762'151;
constexpr std::uint64_t kMicroseconds = kSeconds * 1'000'000;

Buffer packet(std::uint16_t id) { return ipv4(udp(1'024, 53, dns(id))); }

std::vector<unsigned> ids(const ReadTrace& trace) {
    std::vector<unsigned> out;
    std::ranges::transform(trace.messages, std::back_inserter(out), [](const ReadMessage& message) {
        return message.bytes[0] * 256U + message.bytes[1];
    });
    return out;
}

/// Plain and compressed are the same.
ReadTrace read_both(const PcapngFile& file) {
    const auto plain = read_trace(file.bytes());
    const auto packed = read_trace(compress(file.bytes(), "gzip"));
    EXPECT_EQ(ids(plain), ids(packed));
    EXPECT_EQ(plain.trouble, packed.trouble);
    EXPECT_EQ(plain.counters, packed.counters);
    return plain;
}

TEST(Pcapng, InterfacesOfDifferentLinksSnapLengthsAndTimes) {
    for (const bool big_endian : {false, true}) {
        PcapngFile file(big_endian);
        file.interface(1, 65'535);
        file.interface(101, 256, PcapngFile::resolution(9));
        file.packet(0, ethernet(packet(1)), kMicroseconds);
        file.packet(1, packet(2), kMicroseconds * 1'000 + 5);
        file.interface(113, 0, PcapngFile::resolution(3)); // mid-file
        file.packet(2, hex("0000 0001 0006 0200000000010000 0800") + packet(3),
                    kSeconds * 1'000 + 7);
        const auto trace = read_both(file);
        EXPECT_EQ(trace.trouble, "");
        EXPECT_EQ(trace.description, "pcapng");
        EXPECT_THAT(ids(trace), ElementsAre(1, 2, 3));
        const auto start = static_cast<Nanoseconds>(kSeconds) * kSecond;
        EXPECT_EQ(trace.messages[0].time, start);
        EXPECT_EQ(trace.messages[1].time, start + 5);
        EXPECT_EQ(trace.messages[2].time, start + 7 * kMillisecond);
    }
}

/// As files put one behind the other: each section has its own interfaces and byte order.
TEST(Pcapng, SectionsMidFile) {
    PcapngFile file;
    file.interface(1);
    file.packet(0, ethernet(packet(1)), kMicroseconds);
    file.section(true);
    file.interface(101);
    file.interface(1);
    file.packet(1, ethernet(packet(2)), kMicroseconds);
    file.section(false);
    file.interface(228);
    file.packet(0, packet(3), kMicroseconds);
    EXPECT_THAT(ids(read_both(file)), ElementsAre(1, 2, 3));
    file.section(false);
    file.packet(0, packet(4), kMicroseconds);
    const auto trace = read_both(file);
    EXPECT_THAT(ids(trace), ElementsAre(1, 2, 3));
    EXPECT_THAT(trace.trouble, HasSubstr("after 3 packets"));
    EXPECT_THAT(trace.trouble, HasSubstr("a packet of interface 0, which is not described"));
}

TEST(Pcapng, OtherKindsOfBlocks) {
    PcapngFile file;
    file.interface(101, 40);
    file.old_packet(0, packet(1), kMicroseconds);
    file.block(4, Buffer(40));           // names
    file.block(5, Buffer(12));           // statistics
    file.block(0x0bad, Buffer(200'000)); // of someone's own
    file.simple_packet(part(packet(2), 0, 40), 53);
    const auto trace = read_both(file);
    EXPECT_EQ(trace.trouble, "");
    EXPECT_EQ(trace.packets, 2U);
    EXPECT_THAT(ids(trace), ElementsAre(1));
    EXPECT_THAT(trace.counters, ElementsAre(Pair("cut_packet", 1)));
}

TEST(Pcapng, APacketWithoutATimeHasThatOfTheOneBefore) {
    PcapngFile file;
    file.interface(101);
    file.packet(0, packet(1), kMicroseconds);
    file.simple_packet(packet(2));
    const auto trace = read_both(file);
    ASSERT_THAT(ids(trace), ElementsAre(1, 2));
    EXPECT_EQ(trace.messages[1].time, trace.messages[0].time);
}

TEST(Pcapng, InterfacesThatAreNotReadAreCountedByPacket) {
    PcapngFile file;
    file.interface(195);
    file.interface(101);
    file.packet(0, Buffer(50), kMicroseconds);
    file.packet(1, packet(1), kMicroseconds);
    file.packet(0, Buffer(50), kMicroseconds);
    const auto trace = read_both(file);
    EXPECT_EQ(trace.trouble, "");
    EXPECT_THAT(ids(trace), ElementsAre(1));
    EXPECT_THAT(trace.counters, ElementsAre(Pair("unknown_link", 2)));
}

Nanoseconds time_of(const Buffer& option, std::uint64_t ticks) {
    PcapngFile file;
    file.interface(101, 0, option);
    file.packet(0, packet(1), ticks);
    const auto trace = read_both(file);
    return trace.messages.empty() ? -1 : trace.messages[0].time;
}

TEST(Pcapng, UnitsOfTime) {
    constexpr std::uint8_t kBinary = 0x80;
    EXPECT_EQ(time_of(PcapngFile::resolution(0), 7), 7 * kSecond);
    EXPECT_EQ(time_of(PcapngFile::resolution(12), 7'000'000'001'999), 7 * kSecond + 1);
    EXPECT_EQ(time_of(PcapngFile::resolution(19), ~0ULL), 1'844'674'407);
    EXPECT_EQ(time_of(PcapngFile::resolution(kBinary | 32U), (7ULL << 32U) + (1ULL << 31U)),
              7 * kSecond + kSecond / 2);
    EXPECT_EQ(time_of(PcapngFile::resolution(kBinary | 63U), 1ULL << 63U), kSecond);
    const Buffer offset = hex("0e00 0800 0a00000000000000");
    EXPECT_EQ(time_of(offset, 5'000'000), 15 * kSecond);
}

TEST(Pcapng, TimesThatDoNotFitAreRefused) {
    EXPECT_EQ(time_of(PcapngFile::resolution(0), ~0ULL), -1);
    EXPECT_EQ(time_of(PcapngFile::resolution(0), 1ULL << 63U), -1);
    EXPECT_EQ(time_of(PcapngFile::resolution(0), 9'223'372'036), -1);
    EXPECT_EQ(time_of(hex("0e00 0800 ffffffffffffff7f"), 5'000'000), -1);
    EXPECT_EQ(time_of(hex("0e00 0800 0000000000000080"), 5'000'000), -1);
    PcapngFile file;
    file.interface(101, 0, PcapngFile::resolution(0));
    file.packet(0, packet(1), kSeconds);
    file.packet(0, packet(2), ~0ULL);
    const auto trace = read_both(file);
    EXPECT_THAT(ids(trace), ElementsAre(1));
    EXPECT_THAT(trace.trouble, HasSubstr("after 1 packets"));
    EXPECT_THAT(trace.trouble, HasSubstr("a packet's time is before 1970 or after 2149"));
}

/// What stands behind a good packet must end the reading and not the program.
TEST(Pcapng, DamageIsToldWithItsPlace) {
    const auto damaged = [](auto add) {
        PcapngFile file;
        file.interface(101);
        file.packet(0, packet(1), kMicroseconds);
        const std::string place = "at byte " + std::to_string(file.bytes().size());
        const auto trace = read_trace(file.bytes() + add(file));
        EXPECT_THAT(ids(trace), ElementsAre(1));
        EXPECT_THAT(trace.trouble, HasSubstr("after 1 packets, " + place));
        return trace.trouble;
    };
    const auto bytes = [&](const char* text) { return damaged([&](auto&) { return hex(text); }); };
    EXPECT_THAT(bytes("06000000 0c000000"), HasSubstr("a block is cut"));
    EXPECT_THAT(bytes("06000000 0b000000 00000000"), HasSubstr("a block of 11 bytes"));
    EXPECT_THAT(bytes("06000000 00000000 00000000"), HasSubstr("a block of 0 bytes"));
    EXPECT_THAT(bytes("06000000 fcffffff 00000000"), HasSubstr("a block of 4294967292 bytes"));
    EXPECT_THAT(bytes("0500dead 10000000 00000000 14000000"), HasSubstr("two lengths differ"));
    EXPECT_THAT(bytes("0a0d0d0a 1c000000 00000000 01000000"), HasSubstr("without a byte order"));
    EXPECT_THAT(bytes("0a0d0d0a 1c000000 4d3c2b1a 02000000"), HasSubstr("a section of version 2"));
    EXPECT_THAT(bytes("00000000 00000000 00000000"), HasSubstr("a block of 0 bytes")) << "zeros";
}

TEST(Pcapng, BrokenInterfacesAndPackets) {
    const auto trouble = [](auto add) {
        PcapngFile file;
        file.interface(101);
        add(file);
        return read_trace(file.bytes()).trouble;
    };
    EXPECT_THAT(trouble([](PcapngFile& file) { file.block(1, hex("0100")); }),
                HasSubstr("an interface is cut"));
    EXPECT_THAT(trouble([](PcapngFile& file) { file.interface(1, 0, PcapngFile::resolution(20)); }),
                HasSubstr("a unit that cannot be"));
    EXPECT_THAT(trouble([](PcapngFile& file) {
                    file.block(6, Buffer(12) + little32(100) + little32(100) + Buffer(96));
                }),
                HasSubstr("a packet is longer than its block"));
    EXPECT_THAT(trouble([](PcapngFile& file) { file.block(6, Buffer(8)); }),
                HasSubstr("a packet is longer than its block"));
}

TEST(Pcapng, EveryCutKeepsWhatCameBefore) {
    PcapngFile file;
    file.interface(101);
    const size_t head = file.bytes().size();
    file.packet(0, packet(1), kMicroseconds);
    const size_t one = file.bytes().size() - head;
    file.packet(0, packet(2), kMicroseconds);
    for (size_t size = 24; size < file.bytes().size(); ++size) {
        const Buffer cut = part(file.bytes(), 0, size);
        if (size < head) {
            EXPECT_THAT(refusal(cut), HasSubstr(size == 28 ? "" : "is not a readable pcapng file"))
                << size;
            continue;
        }
        const auto trace = read_trace(cut);
        EXPECT_EQ(trace.messages.size(), (size - head) / one) << size;
        EXPECT_EQ(trace.trouble.empty(), (size - head) % one == 0) << size;
    }
}

} // namespace
} // namespace reprise::trace
