// One meaning of a capture, plain or compressed; and files that were cut or damaged on their way.
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
#include <random>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kFirst = 1'475'762'151'000'000'000;
constexpr size_t kFileHeader = 24;
constexpr size_t kRecordHeader = 16;

Buffer frame(std::uint16_t id) { return ethernet(ipv4(udp(1'024, 53, dns(id)))); }

/// Queries 0, 1, ... a millisecond apart.
Buffer capture(std::uint16_t count, bool nanoseconds = false, bool big_endian = false) {
    PcapFile file(1, nanoseconds, big_endian);
    for (std::uint16_t i = 0; i < count; ++i) {
        file.add(frame(i), kFirst + i * kMillisecond);
    }
    return file.bytes();
}

/// Overwrites a number of the file's.
void put(Buffer& file, size_t at, std::uint32_t value, bool big_endian = false) {
    const Buffer bytes = big_endian ? be32(value) : little32(value);
    std::ranges::copy(bytes, file.begin() + static_cast<std::ptrdiff_t>(at));
}

size_t record(size_t number) { return kFileHeader + number * (kRecordHeader + frame(0).size()); }

/// Reads the file plain and compressed; everything that is read must be the same.
ReadTrace read_both(const Buffer& file) {
    auto plain = read_trace(file);
    const auto packed = read_trace(compress(file, "gzip"));
    EXPECT_EQ(packed.description, "pcap, gzip");
    EXPECT_EQ(plain.messages.size(), packed.messages.size());
    for (size_t i = 0; i < std::min(plain.messages.size(), packed.messages.size()); ++i) {
        EXPECT_EQ(plain.messages[i].time, packed.messages[i].time) << i;
        EXPECT_EQ(plain.messages[i].bytes, packed.messages[i].bytes) << i;
    }
    EXPECT_EQ(plain.counters, packed.counters);
    EXPECT_EQ(plain.packets, packed.packets);
    EXPECT_EQ(plain.trouble, packed.trouble);
    return plain;
}

TEST(OneMeaning, RecordsLongerThanTheSnapLength) {
    for (const bool big_endian : {false, true}) {
        Buffer file = capture(3, false, big_endian);
        put(file, 16, 60, big_endian);
        EXPECT_EQ(read_both(file).messages.size(), 3U);
        EXPECT_THAT(read_both(file).counters, IsEmpty());
    }
}

TEST(OneMeaning, SecondsAndFractionsAreUnsigned) {
    for (const bool nanoseconds : {false, true}) {
        for (const bool big_endian : {false, true}) {
            for (const std::uint32_t seconds : {0x7fff'ffffU, 0x8000'0000U, 0xffff'ff00U}) {
                for (const std::uint32_t fraction : {0U, 1'000'001U, 0x7fff'ffffU, 0xffff'ffffU}) {
                    Buffer file = capture(1, nanoseconds, big_endian);
                    put(file, record(0), seconds, big_endian);
                    put(file, record(0) + 4, fraction, big_endian);
                    const auto trace = read_both(file);
                    ASSERT_EQ(trace.messages.size(), 1U);
                    EXPECT_EQ(trace.messages[0].time,
                              seconds * kSecond + fraction * (nanoseconds ? 1 : kMicrosecond));
                }
            }
        }
    }
}

TEST(OneMeaning, LengthsThatContradictEachOther) {
    const auto size = static_cast<std::uint32_t>(frame(0).size());
    for (const std::uint32_t wire : {0U, 1U, size - 1, size + 1, 70'000U, ~0U}) {
        Buffer file = capture(3);
        put(file, record(1) + 12, wire);
        EXPECT_EQ(read_both(file).messages.size(), 3U) << wire;
    }
}

/// A header of Ethernet that is cut, and one that is damaged, are two things.
TEST(OneMeaning, BadAndCutPackets) {
    PcapFile file(1);
    file.add(part(frame(0), 0, 20), kFirst);
    file.add(part(frame(0), 0, 20), kFirst, static_cast<std::uint32_t>(frame(0).size()));
    const auto trace = read_both(file.bytes());
    EXPECT_EQ(trace.counters, (Counters{{"bad_packet", 1}, {"cut_packet", 1}}));
}

/// Damage in any header, as it comes, costs nothing before it, and what it costs is told.
TEST(OneMeaning, DamagedHeaders) {
    std::mt19937 random(1); // NOLINT(cert-msc51-cpp): the same in every run
    size_t read = 0;
    for (int turn = 0; turn < 60; ++turn) {
        Buffer file = capture(6, turn % 2 == 0, turn % 3 == 0);
        size_t before = 6;
        for (int i = 0; i < 2; ++i) {
            const size_t number = random() % 6;
            const size_t at = record(number) + random() % kRecordHeader;
            file[at] ^= static_cast<std::uint8_t>(1U << random() % 8);
            before = std::min(before, number);
        }
        const auto trace = read_both(file);
        EXPECT_GE(trace.messages.size(), before) << turn;
        EXPECT_LE(trace.messages.size(), 6U) << turn;
        EXPECT_TRUE(trace.messages.size() == 6 || !trace.trouble.empty()) << turn;
        read += trace.messages.size();
    }
    EXPECT_GE(read, 268U) << "most damage is to times and to lengths on the wire";
}

/// What a machine that lost power leaves at a file's end.
TEST(DamagedFiles, ATailOfZeros) {
    for (const size_t zeros : {16U, 17U, 4'096U}) {
        const auto trace = read_both(capture(5) + Buffer(zeros));
        EXPECT_EQ(trace.messages.size(), 5U);
        EXPECT_THAT(trace.trouble,
                    AllOf(HasSubstr("after 5 packets, at byte " + std::to_string(record(5))),
                          HasSubstr("zeros instead of packets")));
        EXPECT_THAT(trace.counters, IsEmpty());
    }
}

TEST(DamagedFiles, WhatFollowsCompressedDataAndIsNone) {
    for (const std::string& filter : kFilters) {
        const Buffer packed = compress(capture(200), filter);
        for (const Buffer& tail : {Buffer(4'096), Buffer(10, 'x'), Buffer(1, 0x1f)}) {
            if (filter == "xz" && tail.size() == 4'096) {
                continue; // padding, as the format has it
            }
            std::string trouble = refusal(packed + tail); // xz and zstd give up a small file whole
            if (trouble.empty()) {
                const auto trace = read_trace(packed + tail);
                EXPECT_EQ(trace.messages.size(), 200U) << filter;
                trouble = trace.trouble;
            }
            EXPECT_NE(trouble, "") << filter << tail.size();
        }
    }
}

TEST(DamagedFiles, ASecondMemberOfGzip) {
    const Buffer plain = capture(400);
    const Buffer first = compress(part(plain, 0, record(200)), "gzip");
    const Buffer second = compress(part(plain, record(200)), "gzip");
    EXPECT_EQ(read_trace(first + second).messages.size(), 400U);
    for (const size_t at : {0U, 1U, 2U, 3U}) { // magic, method, reserved flags
        Buffer damaged = second;
        damaged[at] ^= 0xe0U;
        const auto trace = read_trace(first + damaged);
        EXPECT_EQ(trace.messages.size(), 200U) << at;
        EXPECT_THAT(trace.trouble, HasSubstr("member ")) << at;
    }
    Buffer damaged = second;
    damaged[damaged.size() - 6] ^= 1U; // the check sum
    const auto trace = read_trace(first + damaged);
    EXPECT_EQ(trace.messages.size(), 400U);
    EXPECT_THAT(trace.trouble, HasSubstr("member 2 of the gzip data is damaged"));
}

/// As `gzip -dc` does: what is before the cut is data, however little.
TEST(DamagedFiles, ASmallCutGzip) {
    const Buffer packed = compress(capture(300), "gzip");
    size_t most = 0;
    for (const size_t percent : {20U, 50U, 80U, 99U}) {
        const auto trace = read_trace(part(packed, 0, packed.size() * percent / 100));
        EXPECT_THAT(trace.trouble, HasSubstr("member 1 of the gzip data is cut")) << percent;
        EXPECT_GE(trace.messages.size(), most);
        most = trace.messages.size();
        EXPECT_GT(most, percent < 50 ? 0U : 300U * percent / 200) << percent;
    }
}

} // namespace
} // namespace reprise::trace
