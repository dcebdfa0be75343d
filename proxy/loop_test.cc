// Packets through the loop on a clock that the test sets.
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/loop.hh"
#include "proxy/rewrite/address_map.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/statistics.hh"
#include "proxy/testing/packets.hh"
#include "proxy/tun/tun.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

namespace reprise::proxy {
namespace {

class TestClock final : public Clock {
public:
    [[nodiscard]] Nanoseconds now() const override { return time; }

    [[nodiscard]] ClockPair pair() const override { return {.monotonic = time, .realtime = time}; }

    Nanoseconds time = kSecond;
};

/// Holds what is to be read, and what was written with its time.
class TestDevice final : public Device {
public:
    explicit TestDevice(const Clock& clock) : clock_(clock) {}

    struct Written {
        Nanoseconds time;
        testing::Buffer packet;
    };

    [[nodiscard]] std::span<std::uint8_t> read(std::span<std::uint8_t> buffer) const override {
        if (waiting.empty() && gone) {
            throw Error("the device has vanished");
        }
        if (waiting.empty()) {
            return {};
        }
        const size_t size = waiting.front().size();
        std::ranges::copy(waiting.front(), buffer.begin());
        waiting.pop_front();
        return buffer.first(size);
    }

    [[nodiscard]] bool write(Bytes packet) const override {
        if (!gone) {
            written.push_back({clock_.now(), {packet.begin(), packet.end()}});
        }
        return !gone;
    }

    mutable std::deque<testing::Buffer> waiting;
    mutable std::vector<Written> written;
    bool gone = false;

private:
    const Clock& clock_;
};

class LoopTest : public ::testing::Test {
protected:
    /// With another payload, to be known by.
    void arrive(std::uint8_t number) {
        device_.waiting.push_back(testing::make({.payload = testing::Buffer{number}}));
    }

    [[nodiscard]] std::vector<int> numbers() const {
        std::vector<int> out;
        out.reserve(device_.written.size());
        for (const auto& one : device_.written) {
            out.push_back(one.packet.back());
        }
        return out;
    }

    TestClock clock_;
    TestDevice device_{clock_};
    Statistics statistics_;
    DelayModel model_{{.rtt_ms = 20}, 1, 0};
    Loop loop_{device_, {}, &model_, nullptr, statistics_, clock_};
};

TEST_F(LoopTest, PacketsWaitTheirDelayAndKeepTheirOrder) {
    const Nanoseconds begin = clock_.time;
    arrive(1);
    arrive(2);
    loop_.read_batch();
    EXPECT_EQ(loop_.next_due(), begin + 20 * kMillisecond);
    clock_.time += 5 * kMillisecond;
    arrive(3);
    loop_.read_batch();
    EXPECT_EQ(statistics_.in_line, 3U);
    clock_.time = begin + 20 * kMillisecond - 1;
    loop_.release_due(clock_.time);
    EXPECT_TRUE(device_.written.empty());
    clock_.time += 1 + 3 * kMicrosecond; // late
    loop_.release_due(clock_.time);
    EXPECT_EQ(numbers(), (std::vector{1, 2}));
    EXPECT_EQ(statistics_.delay_error.max(), 3 * kMicrosecond);
    clock_.time = begin + 25 * kMillisecond;
    loop_.release_due(clock_.time);
    EXPECT_EQ(numbers(), (std::vector{1, 2, 3}));
    EXPECT_EQ(statistics_.written, 3U);
    EXPECT_EQ(statistics_.in_line, 0U);
    EXPECT_EQ(loop_.next_due(), std::nullopt);
}

TEST_F(LoopTest, ABatchLeavesTheRestForTheNextTurn) {
    for (std::uint8_t i = 0; i < 100; ++i) {
        arrive(i);
    }
    loop_.read_batch();
    EXPECT_EQ(statistics_.read, 64U);
    loop_.read_batch();
    EXPECT_EQ(statistics_.read, 100U);
}

TEST_F(LoopTest, ADeviceThatVanishesIsToldWithWhatWasCounted) {
    arrive(1);
    loop_.read_batch();
    device_.gone = true;
    clock_.time += kSecond;
    loop_.release_due(clock_.time);
    EXPECT_THROW(loop_.read_batch(), Error);
    EXPECT_EQ(statistics_.read, 1U);
    EXPECT_EQ(statistics_.refused, 1U);
    EXPECT_EQ(statistics_.verdicts[size_t(Verdict::kPassed)], 1U);
}

/// Of what the upstream counts call queries, segments and later fragments are none.
TEST_F(LoopTest, OnlyDatagramsAreCountedAsDroppedQueries) {
    DelayModel model{{.loss_percent = 100}, 1, 0};
    const AddressMap map = parse_map("#reprise-map 1\n"
                                     "resolver\t1\t198.19.254.1\t-\n"
                                     "meta\t1\t1\t1\t198.18.128.1\t-\n"
                                     "oqda\t198.41.0.4\t1\n",
                                     "map.tsv");
    Loop loop(device_, Routes::of_resolver(map, 1), &model, nullptr, statistics_, clock_);
    const testing::Recipe unmapped{.destination = "192.0.2.1"};
    device_.waiting = {testing::make({}), testing::make({.protocol = 6}), testing::make(unmapped),
                       testing::make({.destination = "192.0.2.1", .protocol = 6, .tcp_flags = 2})};
    std::ranges::copy(testing::fragment_v4(testing::make({.payload = testing::Buffer(50, 1)}), 32),
                      std::back_inserter(device_.waiting));
    loop.read_batch();
    EXPECT_EQ(statistics_.lost, 4U);
    EXPECT_EQ(statistics_.verdicts[size_t(Verdict::kUnmapped)], 2U);
    EXPECT_EQ(statistics_.datagrams, 3U);
    EXPECT_EQ(statistics_.dropped, 3U);
}

} // namespace
} // namespace reprise::proxy
