#pragma once
// Pairs queries with their responses as captured.
//
// A response belongs to the oldest open query with the same addresses and ports (in TCP: the same
// connection), id and question (names without regard to case). A response without a question, or to
// a query whose question cannot be read, goes by id. Queries stay open for a window of trace time;
// a response captured a little before its query (capture reorders) is kept for the skew.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <unordered_map>
#include <vector>

namespace reprise::mutator {

/// A query and what became of it.
struct Exchange {
    std::uint64_t sequence = 0; ///< index among the queries of the trace, from 0
    Nanoseconds query_time = 0;
    Nanoseconds reply_time = 0;
    Transport transport = Transport::kUdp;
    bool answered = false;
    std::vector<std::uint8_t> query;
    std::vector<std::uint8_t> reply; ///< empty where unanswered or bytes are not kept
};

struct PairerOptions {
    Nanoseconds window = 10 * kSecond; ///< trace time
    Nanoseconds skew = 1 * kMillisecond;
    size_t memory =
        1UL << 30U; ///< most bytes of messages held; beyond, the oldest queries are closed early
    bool keep_replies = true;
};

struct PairerCounts {
    std::uint64_t queries = 0;
    std::uint64_t responses = 0;
    std::uint64_t matched = 0;
    std::uint64_t unanswered = 0;
    std::uint64_t unmatched_responses = 0;
    std::uint64_t early_responses = 0; ///< matched, but captured before their query
    std::uint64_t closed_early = 0;    ///< unanswered because the memory was full
};

class Pairer {
public:
    /// Called once for every query, in order of sequence.
    using Sink = std::function<void(const Exchange&)>;

    Pairer(const PairerOptions& options, Sink sink);

    /// The trace's next message; its bytes are copied where they are needed later.
    void add(const Query& query);

    /// Closes every open query.
    void finish();

    [[nodiscard]] const PairerCounts& counts() const { return counts_; }

private:
    /// What query and response have in common.
    struct Key {
        Endpoint client;
        Endpoint server;
        std::uint64_t connection = 0;
        std::uint16_t id = 0;
        Transport transport = Transport::kUdp;

        bool operator==(const Key&) const = default;
    };

    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    struct Open {
        Key key;
        std::uint64_t next = kNone; ///< of the same number, younger
        std::uint64_t number = 0;   ///< number_of() the key
        Exchange exchange;
    };

    struct Early {
        Key key;
        Nanoseconds time = 0;
        std::vector<std::uint8_t> bytes;
    };

    /// Sequence numbers of the oldest and the youngest query; the others follow by Open::next.
    struct Chain {
        std::uint64_t first = kNone;
        std::uint64_t last = kNone;
    };

    using Index = std::unordered_map<std::uint64_t, Chain>; ///< by number_of() their keys

    /// A place in a chain, with the one before it.
    struct Found {
        std::uint64_t before = kNone;
        std::uint64_t at = kNone;
    };

    static Key key_of(const Query& query);

    /// Seldom the same for two keys.
    [[nodiscard]] std::uint64_t number_of(const Key& key) const;
    void add_query(const Query& query);
    void add_response(const Query& query);
    bool match(const Key& key, Nanoseconds time, Bytes reply);
    bool match_early(const Open& open);
    void enter(const Open& open);
    void leave(Index::iterator chain, const Found& query);
    void drop_early(Nanoseconds before);
    [[nodiscard]] Found find_open(const Chain& chain, const Key& key, Bytes reply);
    void answer(Open& open, Nanoseconds time, Bytes reply);
    void forget(const Open& open);
    void close_front();
    void close_old();

    Open& open_at(std::uint64_t sequence) {
        return open_[sequence - open_.front().exchange.sequence];
    }

    PairerOptions options_;
    Sink sink_;
    std::deque<Open> open_; ///< by sequence without gaps; answered ones wait for older ones
    Index index_;
    std::deque<Early> early_;
    std::vector<std::vector<std::uint8_t>> spare_messages_; ///< whose memory is used again
    std::vector<Index::node_type> spare_chains_;            ///< likewise
    std::uint64_t seed_ = std::random_device{}();           ///< a trace cannot be made to collide
    Nanoseconds latest_ = 0;
    size_t held_ = 0;
    PairerCounts counts_;
};

} // namespace reprise::mutator
