// Real dnstap and C-DNS files, the latter against the capture of the same traffic.
#include "core/testing/shared_data.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/testing/files.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::trace {
namespace {

using namespace test; // NOLINT(google-build-using-namespace)

namespace fs = std::filesystem;

struct Read {
    std::vector<ReadMessage> queries;
    size_t responses = 0;
    Counters counters;
};

Read read_file(const std::string& path) {
    Reader reader(path);
    Read out;
    for (Query query; reader.next(query);) {
        if (query.is_response()) {
            ++out.responses;
            continue;
        }
        out.queries.push_back({.time = query.time,
                               .source = query.source.text(),
                               .destination = query.destination.text(),
                               .transport = query.transport,
                               .response = false,
                               .bytes = {query.message.begin(), query.message.end()}});
    }
    EXPECT_EQ(reader.trouble(), "") << path;
    out.counters = reader.counters();
    return out;
}

TEST(ForeignData, CdnsHoldsTheQueriesOfItsCapture) {
    const std::string file = shared_file("root/compactor-gold.cbor.xz");
    if (!fs::exists(file)) {
        GTEST_SKIP() << "no " << file;
    }
    const Read cdns = read_file(file);
    const Read capture = read_file(shared_file("root/compactor-gold.pcap.xz"));
    EXPECT_EQ(cdns.responses, capture.responses);
    EXPECT_TRUE(cdns.counters.empty());
    ASSERT_EQ(cdns.queries.size(), 999U);
    ASSERT_EQ(cdns.queries.size(), capture.queries.size());
    for (size_t i = 0; i < cdns.queries.size(); ++i) {
        EXPECT_EQ(cdns.queries[i].time, capture.queries[i].time) << i;
        EXPECT_EQ(cdns.queries[i].source, capture.queries[i].source) << i;
        EXPECT_EQ(cdns.queries[i].destination, capture.queries[i].destination) << i;
        EXPECT_EQ(cdns.queries[i].bytes, capture.queries[i].bytes) << i;
    }
}

TEST(ForeignData, DnstapOfAServer) {
    const std::string file = shared_file("dnstap/knot-auth.dnstap");
    if (!fs::exists(file)) {
        GTEST_SKIP() << "no " << file;
    }
    const Read read = read_file(file);
    EXPECT_EQ(read.queries.size(), 5U);
    EXPECT_EQ(read.responses, 5U);
    EXPECT_EQ(read.counters.at("dnstap_auth_query"), 5U);
    EXPECT_EQ(read.queries[0].source, "10.0.2.40:48120");
}

/// Both sides of a resolver; the counts are those of BIND's dnstap-read.
TEST(ForeignData, DnstapOfAResolver) {
    const std::string file = shared_file("dnstap/unbound-fwd-1.dnstap");
    if (!fs::exists(file)) {
        GTEST_SKIP() << "no " << file;
    }
    const Read read = read_file(file);
    EXPECT_EQ(read.queries.size(), 64U);
    EXPECT_EQ(read.responses, 64U);
    EXPECT_EQ(read.counters.at("dnstap_client_query"), 22U);
    EXPECT_EQ(read.counters.at("dnstap_forwarder_query"), 42U);
    EXPECT_EQ(read.counters.at("dnstap_no_source"), 84U);
}

} // namespace
} // namespace reprise::trace
