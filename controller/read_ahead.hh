#pragma once
// The Reader in a thread of its own: a trace on a slow disk, behind a pipe or in a stretch of other
// traffic must not hold up the heartbeats of the event loop.
//
// The thread fills batches of flat records and hands them over through a bounded queue: at most
// kBatches of kBlockRecords or kBlockBytes, which is 20 MB at most. A reader that finds no full
// batch takes the one being filled, so nothing waits behind a pipe that pauses.

#include "controller/trace_feed.hh"
#include "core/wire/record.hh"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace reprise::controller {

class ReadAhead {
public:
    enum class Next : std::uint8_t { kQuery, kNothingYet, kEnd };

    /// Starts the thread.
    explicit ReadAhead(std::unique_ptr<TraceFeed> feed);
    ~ReadAhead();
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    /// Next query or close; never waits. It is good until the next call.
    Next next(RecordView& query);

    /// Whole once it has ended.
    [[nodiscard]] FeedState state() const;

    /// Stops the thread; one that is stuck in a read after `patience` is left behind with what it
    /// has published.
    void stop(Nanoseconds patience);

private:
    struct Shared;

    std::shared_ptr<Shared> shared_; ///< with the thread
    std::string batch_;
    std::optional<RecordReader> records_;
};

} // namespace reprise::controller
