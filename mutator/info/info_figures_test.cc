// Rate over time, handshakes.
#include "core/base/clock.hh"
#include "core/trace/reassembly/connections.hh"
#include "mutator/info/trace_info.hh"
#include "mutator/testing/support.hh"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace reprise::mutator {
namespace {

using ::testing::ElementsAre;

/// One of 1 us in all, with so many ns between the capture point and the server and back.
trace::TcpHandshake handshake(Nanoseconds to_server) {
    return {.client = {},
            .server = {},
            .syn = kStart,
            .syn_ack = kStart + to_server,
            .ack = kStart + kMicrosecond};
}

TEST(RateBins, BeginFineAndDoubleTheirWidth) {
    RateBins bins;
    bins.add(kStart);
    bins.add(kStart + 20 * kMillisecond);
    bins.add(kStart - kSecond); // older than the first
    EXPECT_DOUBLE_EQ(bins.width_s(), 1.0 / 64);
    EXPECT_THAT(bins.queries(), ElementsAre(2, 1));
    bins.add(kStart + 8 * kSecond);
    EXPECT_DOUBLE_EQ(bins.width_s(), 1.0 / 32);
    EXPECT_EQ(bins.queries().size(), 257U);
    EXPECT_EQ(bins.queries().front(), 3U);
    EXPECT_EQ(bins.queries().back(), 1U);
}

TEST(RateBins, HoldAnyTimes) {
    RateBins bins;
    bins.add(0);
    for (Nanoseconds time = 1; time > 0;
         time = time <= std::numeric_limits<Nanoseconds>::max() / 2 ? 2 * time : -1) {
        bins.add(time);
    }
    bins.add(std::numeric_limits<Nanoseconds>::max());
    EXPECT_LE(bins.queries().size(), RateBins::kMost);
    EXPECT_EQ(std::accumulate(bins.queries().begin(), bins.queries().end(), std::uint64_t{0}), 65U);
}

TEST(Handshakes, TellWhereTheCaptureWasMade) {
    HandshakeFigures figures;
    EXPECT_EQ(figures.capture_point(), "");
    figures.add(handshake(10));
    EXPECT_EQ(figures.capture_point(), "server");
    EXPECT_EQ(figures.rtt.min(), 1'000);
    EXPECT_EQ(figures.to_server.min(), 10);
    EXPECT_EQ(figures.to_client.min(), 990);
    HandshakeFigures client;
    client.add(handshake(990));
    EXPECT_EQ(client.capture_point(), "client");
    HandshakeFigures between;
    between.add(handshake(500));
    EXPECT_EQ(between.capture_point(), "between");
}

} // namespace
} // namespace reprise::mutator
