// Whole files through both backends: formats, byte orders, compression, and everything that can be
// wrong with a file.
#include "core/base/fd.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/testing/compress.hh"
#include "core/trace/testing/feeder.hh"
#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr Nanoseconds kStart = 1'475'762'151'394'929'000;
constexpr std::uint16_t kPackets = 200;

/// Packet i is query i at kStart + i ms and, where the format has nanoseconds, i ns.
Buffer sample(std::uint32_t link = 1, bool nanoseconds = false, bool big_endian = false) {
    PcapFile file(link, nanoseconds, big_endian);
    for (std::uint16_t i = 0; i < kPackets; ++i) {
        const Buffer packet = ipv4(udp(1'024, 53, dns(i)));
        file.add(link == 1 ? ethernet(packet) : packet,
                 kStart + i * kMillisecond + (nanoseconds ? i : 0));
    }
    return file.bytes();
}

/// The same packets as pcapng, times in nanoseconds (option if_tsresol = 9).
Buffer sample_pcapng() {
    PcapngFile file;
    file.interface(1, 0, PcapngFile::resolution(9));
    for (std::uint16_t i = 0; i < kPackets; ++i) {
        file.packet(0, ethernet(ipv4(udp(1'024, 53, dns(i)))),
                    static_cast<std::uint64_t>(kStart + i * kMillisecond + i));
    }
    return file.bytes();
}

class Files : public ::testing::Test {
protected:
    void SetUp() override { fs::create_directories(folder_); }

    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }

    /// Writes a file whose name tells nothing about what it holds.
    [[nodiscard]] std::string write(const Buffer& bytes) const {
        const std::string name = path("capture");
        std::ofstream(name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        return name;
    }

    /// The one-line error of opening it.
    static std::string refusal(const std::string& name) {
        try {
            const Reader reader(name);
        } catch (const TraceError& error) {
            EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
            return error.what();
        }
        return "accepted";
    }

private:
    fs::path folder_ = fs::temp_directory_path() / ("reprise-trace-" + std::to_string(::getpid()));
};

/// Whether a message is query i of sample().
bool is_sample(const Query& query, unsigned i, bool nanoseconds) {
    return query.message[0] * 256U + query.message[1] == i &&
           query.time == kStart + i * kMillisecond + (nanoseconds ? i : 0) &&
           query.source.text() == "192.0.2.1:1024" && query.destination.text() == "198.51.100.1:53";
}

/// Reads to the end; every message must be the next of sample(). Returns how many there were.
unsigned read_sample(Reader& reader, bool nanoseconds) {
    Query query;
    unsigned count = 0;
    for (; reader.next(query); ++count) {
        EXPECT_TRUE(is_sample(query, count, nanoseconds)) << count;
    }
    return count;
}

/// What came of a damaged file: messages, and the trouble or the refusal.
struct Outcome {
    unsigned messages = 0;
    std::string problem;
};

Outcome read_damaged(const std::string& name) {
    Outcome out;
    try {
        Reader reader(name);
        Query query;
        while (reader.next(query)) {
            ++out.messages;
        }
        out.problem = reader.trouble();
    } catch (const TraceError& error) {
        // Nothing at all could be decompressed: bzip2 and lz4 work in blocks larger than these
        // samples.
        out.problem = error.what();
    }
    return out;
}

unsigned read_sample(const std::string& name, bool nanoseconds) {
    Reader reader(name);
    const unsigned count = read_sample(reader, nanoseconds);
    EXPECT_EQ(reader.trouble(), "");
    return count;
}

TEST_F(Files, PcapOfEitherPrecisionAndByteOrder) {
    for (const bool nanoseconds : {false, true}) {
        for (const bool big_endian : {false, true}) {
            const std::string name = write(sample(1, nanoseconds, big_endian));
            EXPECT_EQ(Reader(name).description(), "pcap");
            EXPECT_EQ(read_sample(name, nanoseconds), kPackets) << nanoseconds << big_endian;
        }
    }
}

TEST_F(Files, RawLinks) {
    for (const std::uint32_t link : {101U, 228U}) {
        for (const bool big_endian : {false, true}) {
            EXPECT_EQ(read_sample(write(sample(link, true, big_endian)), true), kPackets);
        }
    }
}

TEST_F(Files, EveryNanosecondSurvives) {
    PcapFile file(1, true);
    std::vector<Nanoseconds> times;
    for (Nanoseconds i = 0; i < 2'000; ++i) {
        times.push_back(kStart / kSecond * kSecond + i * 499'749 + (i % 2) * 1'000'003);
        file.add(ethernet(ipv4(udp(1'024, 53, dns(1)))), times.back());
    }
    Reader reader(write(file.bytes()));
    Query query;
    for (const Nanoseconds time : times) {
        ASSERT_TRUE(reader.next(query));
        ASSERT_EQ(query.time, time);
    }
}

TEST_F(Files, Pcapng) {
    const std::string name = write(sample_pcapng());
    EXPECT_EQ(Reader(name).description(), "pcapng");
    EXPECT_EQ(read_sample(name, true), kPackets);
}

TEST_F(Files, CompressionIsFoundByContent) {
    for (const std::string& filter : kFilters) {
        const std::string pcap = write(compress(sample(1, true), filter));
        EXPECT_EQ(Reader(pcap).description(), "pcap, " + filter);
        EXPECT_EQ(read_sample(pcap, true), kPackets) << filter;
        const std::string pcapng = write(compress(sample_pcapng(), filter));
        EXPECT_EQ(read_sample(pcapng, true), kPackets) << filter;
    }
}

TEST_F(Files, ConcatenatedGzipMembersAreOneFile) {
    const Buffer plain = sample();
    const Buffer first(plain.begin(), plain.begin() + 5'000);
    const Buffer second(plain.begin() + 5'000, plain.end());
    const std::string name = write(compress(first, "gzip") + compress(second, "gzip"));
    EXPECT_EQ(read_sample(name, false), kPackets);
}

TEST_F(Files, NamedPipe) {
    const std::string name = path("pipe");
    ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
    const Buffer bytes = compress(sample(), "zstd");
    std::thread writer([&name, &bytes] {
        std::ofstream(name, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    });
    EXPECT_EQ(read_sample(name, false), kPackets);
    writer.join();
}

TEST_F(Files, StandardInput) {
    const std::string name = write(sample());
    const FileDescriptor kept(::dup(STDIN_FILENO));
    ASSERT_NE(std::freopen(name.c_str(), "r", stdin), nullptr);
    Reader reader("-");
    EXPECT_EQ(read_sample(reader, false), kPackets);
    ::dup2(kept.get(), STDIN_FILENO);
}

TEST_F(Files, Erf) {
    Buffer bytes;
    for (std::uint16_t i = 0; i < kPackets; ++i) {
        const Buffer frame = hex("0000") + ethernet(ipv4(udp(1'024, 53, dns(i)))) + Buffer(4);
        const Nanoseconds time = kStart + i * kMillisecond + i;
        const auto fraction = (static_cast<std::uint64_t>(time % kSecond) << 32U) / kSecond;
        bytes = std::move(bytes) + little32(static_cast<std::uint32_t>(fraction)) +
                little32(static_cast<std::uint32_t>(time / kSecond)) + hex("02 04") +
                be16(static_cast<unsigned>(frame.size()) + 16) + hex("0000") +
                be16(static_cast<unsigned>(frame.size()) - 2) + frame;
    }
    const std::string name = write(bytes);
    EXPECT_EQ(Reader(name).description(), "erf, libtrace");
    EXPECT_EQ(read_sample(name, true), kPackets);
}

/// Records of ERF that libtrace would crash over end the reading instead.
TEST_F(Files, BrokenErf) {
    const Buffer frame = hex("0000") + ethernet(ipv4(udp(1'024, 53, dns(0)))) + Buffer(4);
    const auto record = [&](const Buffer& type, size_t size) {
        return little32(0) + little32(kStart / kSecond) + type + hex("04") +
               be16(static_cast<unsigned>(size)) + hex("0000") +
               be16(static_cast<unsigned>(frame.size()) - 2) + frame;
    };
    const size_t size = frame.size() + 16;
    const std::vector<Buffer> broken{record(hex("02"), 16),   record(hex("02"), 17),
                                     record(hex("82"), 18),   record(hex("00"), size),
                                     record(hex("04"), size), record(hex("7f"), size)};
    for (const Buffer& bad : broken) {
        const Outcome out =
            read_damaged(write(record(hex("02"), size) + bad + record(hex("02"), size)));
        EXPECT_EQ(out.messages, 1U);
        EXPECT_THAT(out.problem, HasSubstr("after 1 packets: "));
    }
}

TEST_F(Files, LongFrames) {
    PcapFile file(1);
    file.add(ethernet(ipv4(udp(1'024, 53, dns(0)))), kStart);
    file.add(Buffer(100'000), kStart);
    file.add(ethernet(ipv4(udp(1'024, 53, dns(1)))), kStart + kMillisecond);
    const std::string name = write(file.bytes());
    Reader reader(name);
    std::filesystem::remove(name); // it cannot be opened again
    EXPECT_EQ(read_sample(reader, false), 2U);
    EXPECT_EQ(reader.trouble(), "");
    EXPECT_EQ(reader.packets(), 3U);
}

/// As a segment of 64 KiB and more that the snap length cut, or a header that is damaged.
TEST_F(Files, LongWireLengths) {
    for (const bool big_endian : {false, true}) {
        for (const std::uint32_t wire : {65'535U, 65'536U, 100'000U, ~0U}) {
            PcapFile file(1, false, big_endian);
            file.add(ethernet(ipv4(udp(1'024, 53, dns(0)))), kStart);
            file.add(ethernet(ipv4(udp(1'024, 53, dns(1)))), kStart + kMillisecond, wire);
            file.add(ethernet(ipv4(udp(1'024, 53, dns(2)))), kStart + 2 * kMillisecond);
            Reader reader(write(file.bytes()));
            EXPECT_EQ(read_sample(reader, false), 3U) << wire;
            EXPECT_EQ(reader.trouble(), "");
        }
    }
}

/// As Kuznetsov's patch of libpcap wrote them.
TEST_F(Files, LongPacketHeaders) {
    for (const bool big_endian : {false, true}) {
        const Buffer plain = sample(1, false, big_endian);
        const size_t record = (plain.size() - 24) / kPackets;
        Buffer bytes = (big_endian ? hex("a1b2cd34") : hex("34cdb2a1")) + part(plain, 4, 24);
        for (size_t at = 24; at < plain.size(); at += record) {
            bytes = std::move(bytes) + part(plain, at, at + 16) + Buffer(8) +
                    part(plain, at + 16, at + record);
        }
        EXPECT_EQ(read_sample(write(bytes), false), kPackets) << big_endian;
    }
}

TEST_F(Files, FrameCheckSequences) {
    for (const bool big_endian : {false, true}) {
        PcapFile file(0x1400'0001, false, big_endian);
        file.add(ethernet(ipv4(udp(1'024, 53, dns(0)))) + Buffer(4), kStart);
        EXPECT_EQ(read_sample(write(file.bytes()), false), 1U);
    }
}

// ---- what can be wrong

TEST_F(Files, RefusalsNameTheMend) {
    EXPECT_THAT(refusal(path("none")), HasSubstr("No such file or directory; check the path"));
    EXPECT_THAT(refusal(path("")), HasSubstr("is a directory; name a capture file"));
    EXPECT_THAT(refusal(write({})), HasSubstr("is empty; "));
    EXPECT_THAT(refusal(write(compress({}, "gzip"))), HasSubstr("is empty; "));
    EXPECT_THAT(refusal(write(Buffer(100, 'x'))), HasSubstr("is not a packet capture"));
    EXPECT_THAT(refusal(write({'x'})), HasSubstr("is not a packet capture"));
    EXPECT_THAT(refusal(write({'o', 'f', ' ', 'i', 't', 's', '\n', 'x'})),
                HasSubstr("begins with \"of its\")"));
    EXPECT_THAT(refusal(write({0, 1, 2, 3, 4})), HasSubstr("begins with 00 01 02 03)"));
    EXPECT_THAT(refusal(write({0xff, 0xfe, '#', 0})), HasSubstr("is text in UTF-16; save it as "));
    EXPECT_THAT(refusal(write(compress(Buffer(100, 'x'), "xz"))),
                HasSubstr("is not a packet capture"));
    EXPECT_THAT(refusal(write(sample(195))), HasSubstr("link type 195"));
    EXPECT_THAT(refusal(write(hex("d4c3b2a1 0200"))), HasSubstr("readable pcap file: "));
    EXPECT_THAT(refusal(write(hex("d4c3b2a1 0200"))), HasSubstr("its header is cut; check how"));
    EXPECT_THAT(refusal(write(hex("d4c3b2a1 0200 0300") + Buffer(16))),
                HasSubstr("a header of version 2.3"));
}

TEST_F(Files, CaptureWithoutPacketsIsWholeAndEmpty) {
    EXPECT_EQ(read_sample(write(PcapFile(1).bytes()), false), 0U);
}

Buffer first_bytes(const Buffer& whole, size_t size) {
    return {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST_F(Files, CutPcapYieldsTheGoodAndTellsWhere) {
    const Buffer whole = sample();
    const size_t seven = 24 + 7 * ((whole.size() - 24) / kPackets);
    const std::string place = "after 7 packets, at byte " + std::to_string(seven);
    for (const size_t extra : {1U, 15U, 16U, 17U, 40U}) {
        Reader reader(write(first_bytes(whole, seven + extra)));
        EXPECT_EQ(read_sample(reader, false), 7U);
        EXPECT_THAT(reader.trouble(), HasSubstr(place));
    }
    EXPECT_EQ(read_sample(write(first_bytes(whole, seven)), false), 7U) << "a whole file";
}

TEST_F(Files, CutPcapngYieldsTheGood) {
    const Buffer whole = sample_pcapng();
    Reader reader(write({whole.begin(), whole.end() - 150}));
    EXPECT_EQ(read_sample(reader, true), kPackets - 2U);
    EXPECT_THAT(reader.trouble(), HasSubstr("after 198 packets"));
}

TEST_F(Files, CutCompressedFileIsAlwaysNoticed) {
    for (const std::string& filter : kFilters) {
        const Buffer whole = compress(sample(), filter);
        for (const size_t percent : {30U, 60U, 90U}) {
            const auto out = read_damaged(write(first_bytes(whole, whole.size() * percent / 100)));
            EXPECT_LT(out.messages, kPackets);
            EXPECT_NE(out.problem, "") << filter << percent;
        }
    }
}

/// A trace of several blocks: what lies before the cut must come out. (Not lz4, whose blocks hold 4
/// MiB.)
TEST_F(Files, CutCompressedFileYieldsWhatIsBeforeTheCut) {
    Buffer plain = sample();
    const Buffer records(plain.begin() + 24, plain.end());
    for (int i = 0; i < 200; ++i) {
        plain.insert(plain.end(), records.begin(), records.end());
    }
    for (const std::string filter : {"gzip", "bzip2", "zstd"}) {
        const Buffer whole = compress(plain, filter);
        const auto out = read_damaged(write(first_bytes(whole, whole.size() * 8 / 10)));
        EXPECT_GT(out.messages, 201U * kPackets / 10) << filter;
        EXPECT_NE(out.problem, "") << filter;
    }
}

TEST_F(Files, CorruptInTheMiddle) {
    Buffer bytes = sample();
    const size_t record = (bytes.size() - 24) / kPackets;
    const size_t size_field = 24 + 50 * record + 8;
    bytes[size_field] = bytes[size_field + 1] = bytes[size_field + 2] = bytes[size_field + 3] =
        0x7f;
    Reader reader(write(bytes));
    EXPECT_EQ(read_sample(reader, false), 50U);
    EXPECT_THAT(reader.trouble(),
                HasSubstr("after 50 packets, at byte " + std::to_string(24 + 50 * record) +
                          " of the capture: a packet of 2139062143 bytes"));
}

/// Without zstd: the writer adds no checksum, and changed literals are still a good frame.
TEST_F(Files, CorruptCompressedData) {
    for (const std::string filter : {"gzip", "bzip2", "xz", "lz4"}) {
        Buffer bytes = compress(sample(), filter);
        for (size_t i = bytes.size() / 2; i < bytes.size() / 2 + 40; ++i) {
            bytes[i] ^= 0xffU;
        }
        EXPECT_NE(read_damaged(write(bytes)).problem, "") << filter;
    }
}

TEST_F(Files, MessagesWaitingAtTheCutStillComeOut) {
    PcapFile file(1);
    const auto segment = [](std::uint32_t sequence, const Buffer& payload,
                            const std::string& flags) {
        return ethernet(
            ipv4(tcp({.sequence = sequence, .flags = flags, .payload = payload}), {.protocol = 6}));
    };
    file.add(segment(0, {}, "S"), kStart);
    file.add(segment(2'000, prefixed(dns(0)), "A"), kStart); // behind a hole
    Reader reader(write(file.bytes() + Buffer(5)));
    EXPECT_EQ(
        [&reader] {
            Query query;
            return reader.next(query) && query.transport == Transport::kTcp;
        }(),
        true);
    EXPECT_NE(reader.trouble(), "");
    EXPECT_EQ(reader.counters().at("tcp_gap"), 1U);
}

TEST_F(Files, CountersHaveNames) {
    PcapFile file(1);
    file.add(hex("020000000001 020000000002 0806") + Buffer(28), kStart);
    file.add(ethernet(ipv4(udp(1, 2, dns(1)))), kStart);
    Reader reader(write(file.bytes()));
    Query query;
    EXPECT_FALSE(reader.next(query));
    EXPECT_EQ(reader.counters(), (Counters{{"not_ip", 1}, {"other_port", 1}}));
    EXPECT_EQ(reader.packets(), 2U);
}

} // namespace
} // namespace reprise::trace
