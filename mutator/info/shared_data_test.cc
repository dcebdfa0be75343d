// Against a real minute of a root server's traffic, where the shared data is there.

#include "core/testing/shared_data.hh"
#include "core/trace/pairs.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise::mutator {
namespace {

// The expected figures were counted by tshark 4.0.
TEST(SharedData, RealMinute) {
    const std::string path = shared_file("root/nsd-live.raw.pcap.xz");
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no shared data: " << path;
    }
    trace::test::Reader reader(path);
    TraceInfo info;
    for (Query query; reader.next(query);) {
        info.add(query);
    }
    info.finish();
    const TraceFigures& figures = info.figures();
    EXPECT_EQ(reader.packets(), 21'804U);
    EXPECT_EQ(figures.all.queries, 10'432U);
    EXPECT_EQ(figures.all.responses, 10'432U);
    EXPECT_EQ(figures.transports.at("tcp").queries, 106U);
    EXPECT_EQ(figures.edns, 9'146U);
    EXPECT_EQ(figures.dnssec_ok, 7'395U);
    EXPECT_EQ(figures.truncated, 133U);
    EXPECT_EQ(figures.connections.connections(), 106U);
    EXPECT_EQ(figures.pairs.matched, 10'432U);
    EXPECT_EQ(figures.pairs.unmatched_responses, 0U);
}

} // namespace
} // namespace reprise::mutator
