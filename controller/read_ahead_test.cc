#include "controller/options.hh"
#include "controller/testing/tiny_trace.hh"
#include "controller/trace_feed.hh"
#include "core/base/fd.hh"
#include "core/wire/record.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace reprise::controller {
namespace {

class ReadAheadTest : public testing::TinyTrace {
protected:
    std::unique_ptr<TraceFeed> feed() {
        return std::make_unique<TraceFeed>(options_, parse_servers({"198.18.0.53"}, 53));
    }

    /// Polls for the next query or the end, at most ten seconds.
    static ReadAhead::Next wait_next(ReadAhead& ahead, RecordView& query) {
        const Nanoseconds limit = SteadyClock::now() + 10 * kSecond;
        auto result = ReadAhead::Next::kNothingYet;
        while (result == ReadAhead::Next::kNothingYet && SteadyClock::now() < limit) {
            result = ahead.next(query);
            std::this_thread::yield();
        }
        return result;
    }
};

TEST_F(ReadAheadTest, YieldsEveryQueryInOrderAndThenTheEnd) {
    constexpr std::uint64_t kMany = 30'000;
    write_many(kMany);
    ReadAhead ahead(feed());
    RecordView query;
    for (std::uint64_t i = 0; i < kMany; ++i) {
        ASSERT_EQ(wait_next(ahead, query), ReadAhead::Next::kQuery);
        ASSERT_EQ(query.sequence(), i);
    }
    EXPECT_EQ(wait_next(ahead, query), ReadAhead::Next::kEnd);
    EXPECT_EQ(ahead.state().read, kMany);
    EXPECT_TRUE(ahead.state().ended);
    EXPECT_TRUE(ahead.state().trouble.empty());
}

TEST_F(ReadAheadTest, StopsInTheMiddleOfALongTrace) {
    write_many(100'000);
    ReadAhead ahead(feed());
    RecordView query;
    ASSERT_EQ(wait_next(ahead, query), ReadAhead::Next::kQuery);
    ahead.stop(10 * kSecond);
    EXPECT_TRUE(ahead.state().ended);
    EXPECT_LT(ahead.state().read, 100'000U);
}

/// What was read before an error is played.
TEST_F(ReadAheadTest, TheSourcesBeforeAnErrorAreThere) {
    std::ofstream(options_.trace) << "#reprise-text 1\ntime\tsource\tname\ttype\n"
                                     "1000\t192.0.2.1\t.\tA\n"
                                     "1001\t192.0.2.2\t.\tA\n"
                                     "900000\t192.0.2.3\t.\tA\n";
    ReadAhead ahead(feed());
    RecordView query;
    while (wait_next(ahead, query) == ReadAhead::Next::kQuery) {
    }
    EXPECT_NE(ahead.state().error, "");
    EXPECT_EQ(read_file(folder_ + "/sources.csv"), "id,address\n0,192.0.2.1\n1,192.0.2.2\n");
}

TEST_F(ReadAheadTest, APipeThatSaysNothingHoldsNobodyUp) {
    write_many(900);
    const std::string pipe = folder_ + "/pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const std::string content = read_file(options_.trace);
    const FileDescriptor writer(open(pipe.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::write(writer.get(), content.data(), content.size()),
              static_cast<ssize_t>(content.size()));
    options_.trace = pipe;
    ReadAhead ahead(feed());
    RecordView query;
    for (int i = 0; i < 800;
         ++i) { // the last block of a pipe comes when it is full or the pipe ends
        ASSERT_EQ(wait_next(ahead, query), ReadAhead::Next::kQuery);
    }
    ahead.stop(0); // returns, although the thread waits in its read
    EXPECT_GE(ahead.state().read, 800U);
}

} // namespace
} // namespace reprise::controller
