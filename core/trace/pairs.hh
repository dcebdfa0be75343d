#pragma once
// Queries and responses of a trace, brought together: queries that repeat one, responses that were
// asked for, and each query with its response.
//
// A response belongs to a query with the same addresses and ports (in TCP: the same connection), id
// and question (names without regard to case). All of it is compared by hashes under a key that no
// trace knows.

#include "core/base/flat_ids.hh"
#include "core/base/trace_time.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::trace {

/// Clients' own retransmits: UDP queries of the same source address, port, id and question (letter
/// case counts) within `timeout` of trace time after the query that was kept. A query without a
/// well-formed question is never one.
class Retransmits {
public:
    explicit Retransmits(Nanoseconds timeout, size_t most = 1UL << 21U)
        : timeout_(timeout), kept_(timeout, most) {}

    /// Whether a query repeats one that was kept; otherwise it is kept itself.
    bool repeats(const Query& query);

    /// Queries remembered now.
    [[nodiscard]] size_t size() const { return kept_.size(); }

private:
    Nanoseconds timeout_;
    Recent<Nanoseconds> kept_; ///< times
};

/// What a response is to the queries before it.
enum class Asked : std::uint8_t {
    kYes,     ///< a query had its id and question
    kUnknown, ///< no query went this way: the capture may hold responses only, or begin late
    kNo,      ///< queries went this way, or by UDP others of this client did, but none had its id
              ///< and question
};

/// Tells for each response whether it was asked for, also for a second one. Remembers queries for
/// between kPatience and twice as long, in the trace's time.
class AskedBefore {
public:
    static constexpr Nanoseconds kPatience = 30 * kSecond;
    static constexpr Nanoseconds kBegin = 5 * kSecond; ///< queries may lie before the capture

    void query(const Query& query);

    Asked response(const Query& query);

    [[nodiscard]] std::uint64_t queries() const { return queries_; }

    /// Queries that were answered, each once.
    [[nodiscard]] std::uint64_t answered() const { return answered_; }

private:
    struct Nothing {};

    void advance(Nanoseconds now);

    Recent<std::uint8_t> asked_{kPatience}; ///< by everything: 1 where it was answered
    Recent<Nothing> ways_{kPatience};       ///< by addresses and ports
    Recent<Nothing> clients_{kPatience};
    std::optional<Nanoseconds> first_; ///< query
    std::uint64_t queries_ = 0;
    std::uint64_t answered_ = 0;
};

/// A query and what became of it. Times are those of the trace without steps back of its clock by
/// more than the window, and more than a second (SteadyTime).
struct Exchange {
    std::uint64_t sequence = 0; ///< index among the queries of the trace, from 0
    Nanoseconds query_time = 0;
    Nanoseconds reply_time = 0;
    bool answered = false;
    Bytes query; ///< empty where bytes are not kept
    Bytes reply; ///< the same, and where it is unanswered
};

struct PairerOptions {
    Nanoseconds window = 10 * kSecond; ///< trace time
    Nanoseconds skew = 1 * kMillisecond;
    size_t memory =
        1UL << 30U; ///< most bytes of messages waiting; beyond, the oldest queries are closed early
    bool keep_bytes = true;
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

/// Gives each query one response at most: of several open queries the oldest gets it. A response
/// without a question, or to a query whose question cannot be read, goes by id. Queries stay open
/// for a window of trace time; a response captured a little before its query (capture reorders) is
/// kept for the skew. Memory: about 100 bytes an open query, and bytes where they are kept.
class Pairer {
public:
    /// Called once for every query, in order of sequence; the bytes are good during the call.
    using Sink = std::function<void(const Exchange&)>;

    Pairer(const PairerOptions& options, Sink sink)
        : options_(options), sink_(std::move(sink)), steady_(std::max(options.window, kSecond)),
          chains_(kFewestChains) {}

    /// The trace's next message; its bytes are copied where they are needed later.
    void add(const Query& query);

    /// Closes every open query.
    void finish();

    [[nodiscard]] const PairerCounts& counts() const { return counts_; }

private:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};
    static constexpr size_t kFewestChains = 1024;

    struct Message {
        std::uint64_t key = 0; ///< of addresses, ports, connection and id
        std::uint64_t question = 0;
        Nanoseconds time = 0;
        std::vector<std::uint8_t> bytes; ///< where they are kept; a query's reply stands behind
    };

    struct Open {
        Message query;
        Nanoseconds reply_time = 0;
        std::uint64_t next = kNone; ///< of the same chain, younger
        std::uint32_t size = 0;     ///< of the query's message
        bool answered = false;
    };

    /// Sequence numbers of the oldest and the youngest query; the others follow by Open::next.
    struct Chain {
        std::uint64_t first = kNone;
        std::uint64_t last = kNone;
    };

    [[nodiscard]] Message message_of(const Query& query) const;
    void add_query(const Query& query);
    void add_response(const Query& query);
    Open* take(const Message& reply);
    bool match_early(Open& open);
    void enter(std::uint64_t sequence);
    void leave(Chain& chain, std::uint64_t before, std::uint64_t sequence);
    void grow();
    void drop_early(Nanoseconds before);
    void answer(Open& open, const Message& reply);
    void close_front();
    void close_old();

    Open& open_at(std::uint64_t sequence) { return open_[sequence - first_]; }

    Chain& chain_of(std::uint64_t key) { return chains_[key & (chains_.size() - 1)]; }

    PairerOptions options_;
    Sink sink_;
    SteadyTime steady_;
    std::deque<Open> open_;     ///< by sequence without gaps; answered ones wait for older ones
    std::uint64_t first_ = 0;   ///< sequence of the first of them
    std::vector<Chain> chains_; ///< of those not answered, by key; a power of two
    std::deque<Message> early_;
    Nanoseconds latest_ = 0;
    size_t held_ = 0;
    PairerCounts counts_;
};

} // namespace reprise::trace
