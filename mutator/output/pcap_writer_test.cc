#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "mutator/output/pcap_writer.hh"
#include "mutator/test_support.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

const std::vector<std::uint8_t> kPacket{0x45, 1, 2, 3};

TEST(PcapWriter, HeaderAndRecord) {
    const TemporaryFolder folder;
    PcapWriter writer(folder.file("a.pcap"));
    writer.write(3 * kSecond + 7, kPacket);
    writer.finish();
    const std::string text = file_text(folder.file("a.pcap"));
    ASSERT_EQ(text.size(), 24U + 16 + 4);
    EXPECT_EQ(text.substr(0, 4), "\x4d\x3c\xb2\xa1");
    EXPECT_EQ(text.substr(20, 4), std::string("\x65\0\0\0", 4));
    EXPECT_EQ(text.substr(24, 8), std::string("\3\0\0\0\7\0\0\0", 8));
    EXPECT_EQ(text.substr(32, 8), std::string("\4\0\0\0\4\0\0\0", 8));
    EXPECT_EQ(writer.packets(), 1U);
    EXPECT_EQ(writer.bytes(), text.size());
}

TEST(PcapWriter, AppearsOnlyWhenWhole) {
    const TemporaryFolder folder;
    {
        PcapWriter writer(folder.file("a.pcap"));
        writer.write(0, kPacket);
        EXPECT_FALSE(std::ifstream(folder.file("a.pcap")));
    }
    EXPECT_TRUE(folder.empty()) << "an unfinished file must vanish";
}

TEST(PcapWriter, ReplacesAnOlderFile) {
    const TemporaryFolder folder;
    std::ofstream(folder.file("a.pcap")) << std::string(1000, 'x');
    PcapWriter(folder.file("a.pcap")).finish();
    EXPECT_EQ(file_text(folder.file("a.pcap")).size(), 24U);
}

TEST(PcapWriter, UnwritablePlacesAreUsageErrors) {
    const TemporaryFolder folder;
    EXPECT_THROW(PcapWriter(folder.file("none/a.pcap")), UsageError);
    EXPECT_THROW(PcapWriter(folder.file("")), UsageError);
}

TEST(PcapWriter, FullDiskIsAnErrorThatNamesTheFile) {
    PcapWriter writer("/dev/full");
    try {
        writer.finish();
        FAIL();
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("/dev/full: No space left"), std::string::npos);
    }
}

TEST(PcapWriter, TimesBeyondTheFormatAreRefused) {
    PcapWriter writer("/dev/null");
    EXPECT_THROW(writer.write(-1, kPacket), Error);
    EXPECT_THROW(writer.write(0x100000000 * kSecond, kPacket), Error);
    writer.write(0xffffffff * kSecond + 999'999'999, kPacket);
}

} // namespace
} // namespace reprise::mutator
