// What `info` says of the real minute, against what tshark and a few lines of Python find in it.
#include "core/dns/name.hh"
#include "core/testing/shared_data.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"
#include "mutator/info/trace_info.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <string>

namespace reprise::mutator {
namespace {

TEST(InfoData, TheRootMinuteIsAsTsharkSeesIt) {
    const std::string path = shared_file("root/nsd-live.raw.pcap.xz");
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << "no " << path;
    }
    TraceInfo info;
    trace::test::Reader reader(
        path, {.handshakes = [&info](const trace::TcpHandshake& times) { info.add(times); }});
    for (Query query; reader.next(query);) {
        info.add(query);
    }
    info.finish();
    const TraceFigures& f = info.figures();
    EXPECT_EQ(f.sources.size(), 2'491U);
    EXPECT_NEAR(f.skew.busiest_1_percent, 0.239551, 1e-6);
    EXPECT_NEAR(f.skew.busiest_10_percent, 0.589820, 1e-6);
    EXPECT_NEAR(f.skew.zipf, 0.805, 0.001);
    EXPECT_EQ(f.retransmits, 83U);
    const auto names = f.names.top(2);
    EXPECT_EQ(name_text(bytes_of(names[0].first)), ".");
    EXPECT_EQ(names[0].second, 405U);
    EXPECT_EQ(name_text(bytes_of(names[1].first)), "static.optonline.net.");
    EXPECT_EQ(names[1].second, 30U);
    EXPECT_EQ(f.bins.queries().size(), 480U);
    EXPECT_DOUBLE_EQ(f.bins.width_s(), 0.125);
    EXPECT_EQ(std::accumulate(f.bins.queries().begin(), f.bins.queries().end(), std::uint64_t{0}),
              10'432U);
    EXPECT_EQ(f.handshakes.rtt.count(), 106U);
    EXPECT_EQ(f.handshakes.rtt.min(), 1'563'000);
    EXPECT_EQ(f.handshakes.rtt.max(), 248'655'000);
    EXPECT_NEAR(static_cast<double>(f.handshakes.rtt.quantile(0.5)), 40'417'000, 41'000);
    EXPECT_EQ(f.handshakes.capture_point(), "server");
}

} // namespace
} // namespace reprise::mutator
