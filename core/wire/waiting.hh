#pragma once
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace reprise {

/// Messages that wait until nothing comes any more that belongs before them. They leave in the
/// order of their times, those of one time in the order in which they came.
class WaitingMessages {
public:
    /// A copy, which leaves by `time` whatever its own is.
    void put(Nanoseconds time, const Query& query) {
        Message& message = waiting_.emplace(time, Message{.query = query, .bytes = {}})->second;
        message.bytes.assign(query.message.begin(), query.message.end());
        message.query.message = message.bytes;
        memory_ += sizeof(Message) + message.bytes.size();
    }

    /// Whether one has a time up to and including `until`.
    [[nodiscard]] bool due(Nanoseconds until) const {
        return !waiting_.empty() && waiting_.begin()->first <= until;
    }

    /// The first one, which there must be; good until the next call.
    const Query& take() {
        taken_ = waiting_.extract(waiting_.begin());
        memory_ -= sizeof(Message) + taken_.mapped().bytes.size();
        return taken_.mapped().query;
    }

    /// Bytes that they take, roughly.
    [[nodiscard]] size_t memory() const { return memory_; }

private:
    struct Message {
        Query query; ///< its message is in `bytes`
        std::vector<std::uint8_t> bytes;
    };

    std::multimap<Nanoseconds, Message> waiting_;
    std::multimap<Nanoseconds, Message>::node_type taken_;
    size_t memory_ = 0;
};

} // namespace reprise
