// Real captures: the counts of every one listed in the collection's MANIFEST.md.
#include "core/testing/shared_data.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

namespace reprise::trace {
namespace {

using test::Reader;

namespace fs = std::filesystem;

struct Counts {
    std::uint64_t packets = 0;
    std::uint64_t queries = 0;
    std::uint64_t responses = 0;
    std::uint64_t tcp = 0;

    bool operator==(const Counts&) const = default;
};

/// The manifest counts frames with DNS in them, the reader messages. Where a TCP segment completes
/// several messages the two differ; these are the messages, as Wireshark lists them within the
/// frames (`-T fields -e dns.id`).
const std::map<std::string, Counts> kMessages{
    // One segment with three queries.
    {"generic/oarc-dnsotcp-many1pkt.pcap", {.packets = 10, .queries = 3, .responses = 1, .tcp = 4}},
    // The last segment ends two of the six responses.
    {"generic/sidnlabs-test-multiple-dns-msg-over-tcp.pcap",
     {.packets = 15, .queries = 0, .responses = 6, .tcp = 6}},
    // Eight segments (of several frames each, merged by the card) with 530 queries.
    {"generic/sidnlabs-tcp-stream-multiple-dns-message-request-only.pcap",
     {.packets = 8, .queries = 530, .responses = 0, .tcp = 530}},
};

std::uint64_t number(const std::ssub_match& match) { return std::stoull(match.str()); }

/// Captures of the manifest with their counts.
std::map<std::string, Counts> read_manifest(const std::string& folder) {
    const std::regex row(
        R"(^\| ((?:root|generic|upstream)/[^ ]+\.pcap(?:ng)?(?:\.xz)?) .*pkts=(\d+).* Q=(\d+) R=(\d+) dnsTCP=(\d+))");
    std::map<std::string, Counts> out;
    std::ifstream in(fs::path(folder) / "MANIFEST.md");
    std::string line;
    while (std::getline(in, line)) {
        std::smatch match;
        if (std::regex_search(line, match, row)) {
            out[match[1]] = {.packets = number(match[2]),
                             .queries = number(match[3]),
                             .responses = number(match[4]),
                             .tcp = number(match[5])};
        }
    }
    return out;
}

Counts count(const std::string& path) {
    Reader reader(path);
    Counts out;
    Query query;
    while (reader.next(query)) {
        ++(query.is_response() ? out.responses : out.queries);
        out.tcp += query.transport == Transport::kTcp ? 1 : 0;
    }
    out.packets = reader.packets();
    EXPECT_EQ(reader.trouble(), "") << path;
    return out;
}

TEST(SharedData, CountsOfEveryCaptureAreTheManifests) {
    const std::string folder = shared_file("");
    if (!fs::exists(fs::path(folder) / "MANIFEST.md")) {
        GTEST_SKIP() << "no shared data at " << folder;
    }
    const auto manifest = read_manifest(folder);
    EXPECT_GE(manifest.size(), 34U) << "the manifest's rows were not understood";
    for (const auto& [file, expected] : manifest) {
        const auto exception = kMessages.find(file);
        const Counts seen = count(fs::path(folder) / file);
        EXPECT_TRUE(seen == (exception == kMessages.end() ? expected : exception->second))
            << file << ": packets " << seen.packets << ", queries " << seen.queries
            << ", responses " << seen.responses << ", over TCP " << seen.tcp;
    }
}

TEST(SharedData, TheRootMinuteHas106QueriesOverTcp) {
    const std::string path = shared_file("root/nsd-live.raw.pcap.xz");
    if (!fs::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    Reader reader(path);
    Query query;
    std::uint64_t udp = 0;
    std::uint64_t tcp = 0;
    while (reader.next(query)) {
        (query.transport == Transport::kTcp ? tcp : udp) += query.is_response() ? 0U : 1U;
    }
    EXPECT_EQ(udp, 10'326U);
    EXPECT_EQ(tcp, 106U);
}

/// What tshark sees in it: 106 connections with a query each, of which the client's FIN is the
/// first one in all.
TEST(SharedData, TheRootMinutesClientsCloseTheir106Connections) {
    const std::string path = shared_file("root/nsd-live.raw.pcap.xz");
    if (!fs::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    Reader reader(path, {.closes = true});
    Query query;
    std::set<std::uint64_t> asked;
    std::set<std::uint64_t> closed;
    while (reader.next(query)) {
        if (query.is_close()) {
            EXPECT_TRUE(asked.contains(query.connection));
            EXPECT_EQ(query.destination.port, 53U);
            EXPECT_TRUE(closed.insert(query.connection).second);
        } else if (query.connection != 0 && !query.is_response()) {
            asked.insert(query.connection);
        }
    }
    EXPECT_EQ(asked.size(), 106U);
    EXPECT_EQ(closed.size(), 106U);
}

} // namespace
} // namespace reprise::trace
