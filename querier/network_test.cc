#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "querier/carrier/carrier.hh"
#include "querier/process.hh"

#include <gtest/gtest.h>

#include <cstddef>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <vector>

namespace reprise::querier {
namespace {

/// Or queries would time out whose answers nobody has read yet.
TEST(KernelNetwork, FullEventsAreToldOfWhereTheTimerIsOneOfThem) {
    KernelNetwork network;
    std::vector<FileDescriptor> ready;
    for (size_t i = 0; i < Network::kMostEvents + 50; ++i) {
        ready.emplace_back(check(eventfd(1, EFD_CLOEXEC), "eventfd"));
        network.watch(ready.back().get(), EPOLLIN, {.kind = EventKind::kCarrier});
    }
    const Nanoseconds now = SteadyClock::now();
    do {
        EXPECT_GE(network.wait(now, now + kMillisecond).size(), Network::kMostEvents);
    } while (!network.timer_fired());
}

} // namespace
} // namespace reprise::querier
