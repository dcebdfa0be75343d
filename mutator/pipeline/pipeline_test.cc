#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "core/trace/feed.hh"
#include "core/trace/testing/packets.hh"
#include "mutator/pipeline/pipeline.hh"
#include "mutator/testing/mutate.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::mutator {
namespace {

using test::kBegin;
using test::Lines;
using test::merged_lines;
using test::TimedPacket;
using test::write_capture;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using trace::test::Buffer;
using trace::test::dns;
using trace::test::ipv4;
using trace::test::prefixed;
using trace::test::tcp;
using trace::test::udp;

std::string client(std::uint64_t n) { return "198.18.0." + std::to_string(1 + n % 200); }

/// One client's traffic: UDP queries and responses, fragmented queries, and a TCP connection whose
/// messages are cut into segments and which may or may not be closed.
class Traffic {
public:
    explicit Traffic(std::uint64_t seed) : random_(seed) {}

    std::vector<TimedPacket> make(unsigned events) {
        for (unsigned i = 0; i < events; ++i) {
            const std::uint64_t kind = random_.below(10);
            if (kind < 6) {
                put(ipv4(udp(port(), 53, dns(id())), {.source = client(id_)}));
                put(ipv4(udp(53, port(), dns(id_, true)), {.destination = client(id_)}));
            } else if (kind < 8) {
                fragments();
            } else {
                segments();
            }
        }
        return std::move(packets_);
    }

private:
    struct Flow {
        std::uint32_t next = 0;
        bool open = false;
    };

    std::uint16_t id() { return ++id_; }

    unsigned port() { return 1024 + id_ % 50'000U; }

    void put(Buffer bytes) {
        now_ += static_cast<Nanoseconds>(random_.below(2'000'000));
        packets_.push_back({std::move(bytes), now_});
    }

    void fragments() {
        const Buffer datagram = udp(port(), 53, dns(id()));
        const Buffer first(datagram.begin(), datagram.begin() + 16);
        const Buffer second(datagram.begin() + 16, datagram.end());
        put(ipv4(first, {.source = client(id_), .more = true, .id = id_}));
        put(ipv4(udp(port(), 53, dns(static_cast<std::uint16_t>(id_ + 7))),
                 {.source = "192.0.2.9"}));
        put(ipv4(second, {.source = client(id_), .offset = 16, .id = id_}));
    }

    /// A message on one of a few connections, in two segments with others between them.
    void segments() {
        const std::uint64_t who = random_.below(8);
        Flow& flow = flows_[who];
        const auto send = [&](const Buffer& payload, const std::string& flags) {
            put(ipv4(tcp({.source_port = static_cast<unsigned>(40'000 + who),
                          .sequence = flow.next,
                          .flags = flags,
                          .payload = payload}),
                     {.source = client(who), .protocol = 6}));
            flow.next += static_cast<std::uint32_t>(payload.size() + (flags == "A" ? 0 : 1));
        };
        if (!flow.open) {
            flow.next = static_cast<std::uint32_t>(random_.bits());
            send({}, "S");
            flow.open = true;
        }
        const Buffer message = prefixed(dns(id()));
        send({message.begin(), message.begin() + 9}, "A");
        put(ipv4(udp(port(), 53, dns(id())), {.source = client(id_)}));
        send({message.begin() + 9, message.end()}, "A");
        if (random_.below(4) == 0) {
            send({}, "FA");
            flow.open = false;
        }
    }

    Random random_;
    std::uint16_t id_ = 0;
    Nanoseconds now_ = kBegin;
    std::array<Flow, 8> flows_{};
    std::vector<TimedPacket> packets_;
};

class PipelineTest : public ::testing::Test {
protected:
    std::string write(const std::string& name, const std::vector<TimedPacket>& packets) {
        write_capture(folder_.file(name), packets);
        return folder_.file(name);
    }

    /// Cuts the packets into `files` runs of different lengths.
    std::vector<std::string> rotate(const std::vector<TimedPacket>& packets, size_t files) {
        std::vector<std::string> paths;
        for (size_t i = 0; i < files; ++i) {
            const auto begin =
                packets.begin() + static_cast<std::ptrdiff_t>(packets.size() * i / files);
            const auto end =
                packets.begin() + static_cast<std::ptrdiff_t>(packets.size() * (i + 1) / files);
            paths.push_back(write("r" + std::to_string(i), {begin, end}));
        }
        return paths;
    }

    TemporaryFolder folder_;
};

TEST_F(PipelineTest, OneCaptureIsWhatTheReaderReads) {
    const std::string path = write("one", Traffic(1).make(5'000)); // several chunks
    const Lines expected = test::read_lines(path);
    ASSERT_GT(expected.size(), 5'500U);
    for (const unsigned threads : {1U, 5U}) {
        EXPECT_EQ(merged_lines({path}, threads), expected) << threads;
    }
}

// Streams and fragments cross nearly every cut.
TEST_F(PipelineTest, RotatedCapturesAreOneTrace) {
    const std::vector<TimedPacket> packets = Traffic(2).make(800);
    const Lines expected = test::read_lines(write("whole", packets));
    for (const size_t files : {2U, 7U, 150U}) {
        std::vector<std::string> paths = rotate(packets, files);
        std::ranges::rotate(paths, paths.begin() + 1); // the order of arguments is not that of time
        for (const unsigned threads : {1U, 4U}) {
            EXPECT_EQ(merged_lines(paths, threads), expected) << files << " " << threads;
        }
    }
}

// Packets step back in time within a file, and the files overlap. The reference is put in order by
// the definition: latest time so far of what is not left out, then file, then place. Files that
// were reduced before are the same.
TEST_F(PipelineTest, OverlappingUnorderedCaptures) {
    Random random(3);
    constexpr size_t kFiles = 4;
    std::vector<std::vector<TimedPacket>> files(kFiles);
    for (TimedPacket& packet : Traffic(3).make(1'500)) {
        packet.time += static_cast<Nanoseconds>(random.below(3)) * 40 * kMillisecond;
        files[random.below(kFiles)].push_back(std::move(packet));
    }

    /// Equal keys stay in the order of insertion.
    std::multimap<std::pair<Nanoseconds, size_t>, TimedPacket> all;
    std::vector<std::string> paths;
    std::vector<std::string> reduced;
    for (size_t i = 0; i < kFiles; ++i) {
        Nanoseconds latest = 0;
        for (const TimedPacket& packet : files[i]) {
            const bool response = packet.bytes[9] == 17 && load16(&packet.bytes[20]) == 53;
            latest = std::max(latest, response ? 0 : packet.time);
            all.emplace(std::pair(latest, i), packet);
        }
        paths.push_back(write("o" + std::to_string(i), files[i]));
        reduced.push_back(paths.back() + ".pcap");
        ASSERT_EQ(run_words({"reduce", paths.back(), "-o", reduced.back()}), 0);
    }
    std::vector<TimedPacket> reference;
    std::ranges::transform(all, std::back_inserter(reference),
                           [](const auto& placed) { return placed.second; });
    const Lines expected = test::read_lines(write("reference", reference));
    for (const unsigned threads : {1U, 6U}) {
        EXPECT_EQ(merged_lines(paths, threads), expected) << threads;
        EXPECT_EQ(merged_lines(reduced, threads), expected) << threads;
    }
}

TEST_F(PipelineTest, CountsAreOfAllFiles) {
    const std::vector<TimedPacket> packets = Traffic(4).make(500);
    trace::Feed one(test::feed_options({write("whole", packets)}, 1));
    trace::Feed several(test::feed_options(rotate(packets, 5), 3));
    EXPECT_EQ(merged_lines(several, 3).size(), merged_lines(one, 1).size());
    EXPECT_EQ(one.packets(), packets.size());
    EXPECT_EQ(several.packets(), one.packets());
    EXPECT_EQ(several.responses(), one.responses());
    EXPECT_GT(one.responses(), 100U);
    EXPECT_EQ(several.counters(), one.counters());
}

TEST_F(PipelineTest, TextIsMergedWithCapturesAndKeepsItsConnectionsApart) {
    const Buffer message = prefixed(dns(1));
    const auto segment = [&](std::uint32_t sequence, const Buffer& payload, const char* flags) {
        return ipv4(tcp({.sequence = sequence, .flags = flags, .payload = payload}),
                    {.protocol = 6});
    };
    const std::string capture = write("c", {{segment(1, {}, "S"), kBegin},
                                            {segment(2, message, "A"), kBegin + kSecond},
                                            {ipv4(udp(1, 53, dns(3))), kBegin + 3 * kSecond}});
    const std::string text = folder_.file("t.tsv");
    std::ofstream(text) << "#reprise-text 1\ntime\tsource\tname\ttype\ttransport\tconnection\n"
                        << "1700000002.5\t192.0.2.7\ta.\tA\ttcp\t1\n"
                        << "1700000009\t192.0.2.7\tb.\tA\tudp\t-\n";
    for (const unsigned threads : {1U, 3U}) {
        const Lines lines = merged_lines({text, capture}, threads);
        ASSERT_THAT(lines, SizeIs(4));
        EXPECT_THAT(lines[0], HasSubstr("1700000001000000000 192.0.2.1:40000"));
        EXPECT_THAT(lines[1], HasSubstr("1700000002500000000 192.0.2.7"));
        EXPECT_THAT(lines[2], HasSubstr("1700000003000000000 192.0.2.1:1 "));
        EXPECT_THAT(lines[3], HasSubstr("1700000009000000000 192.0.2.7"));
        EXPECT_THAT(lines[0], HasSubstr(" tcp 1 "));
        EXPECT_THAT(lines[1], HasSubstr(" tcp 2 "));
    }
}

// What came through a pipe is handed on although the pipe stays open and the batch is not full.
TEST_F(PipelineTest, APipeIsNotWaitedFor) {
    const std::string path = folder_.file("fifo");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    trace::test::PcapFile file(101, true);
    file.add(ipv4(udp(1, 53, dns(3))), kBegin);
    const int fd = ::open(path.c_str(), O_RDWR);
    ASSERT_EQ(::write(fd, file.bytes().data(), file.bytes().size()),
              static_cast<ssize_t>(file.bytes().size()));
    trace::Feed feed(test::feed_options({path}, 1));
    const auto hang_up = [fd](BatchJob& job) {
        EXPECT_TRUE(job.flush);
        if (!job.batch.queries.empty()) {
            EXPECT_FALSE(job.last);
            ::close(fd);
        }
        return false;
    };
    Pipeline pipeline(feed, {hang_up}, 1);
    pipeline.run(); // ends once the stage has closed the pipe
    EXPECT_EQ(pipeline.queries(), 1U);
}

TEST_F(PipelineTest, ADamagedFileEndsAndTheOthersGoOn) {
    const std::vector<TimedPacket> packets = Traffic(5).make(300);
    std::vector<std::string> paths = rotate(packets, 3);
    std::filesystem::resize_file(paths[1], std::filesystem::file_size(paths[1]) / 2);
    paths.push_back(folder_.file("missing"));
    trace::Feed feed(test::feed_options(paths, 2));
    EXPECT_GT(merged_lines(feed, 2).size(), 200U);
    EXPECT_EQ(feed.files()[0].end.trouble, "");
    EXPECT_THAT(feed.files()[1].end.trouble, HasSubstr("cut or corrupt"));
    EXPECT_EQ(feed.files()[2].end.trouble, "");
    EXPECT_FALSE(feed.files()[3].end.opened);
    EXPECT_THAT(feed.files()[3].end.trouble, HasSubstr("No such file"));
}

} // namespace
} // namespace reprise::mutator
