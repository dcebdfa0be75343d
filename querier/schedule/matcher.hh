#pragma once
// Which query does a reply answer? The one with the same (owner, id, question), where the owner
// stands for our socket and thereby for local address, peer and transport. Queries with equal keys
// are answered in the order they were sent.
//
// A reply without a question that tells of an error (many FORMERR and some REFUSED are only a
// header) answers the oldest query of its (owner, id). A reply with a question answers, where no
// key is equal, the oldest query of its (owner, id) that has no readable question itself.
//
// A malformed reply answers nothing, whatever its id: the query stays open. Two may be malformed
// because they repeat the query: that of a query without a readable question, and a FORMERR.

#include "core/base/clock.hh"
#include "core/dns/message.hh"
#include "querier/carrier/carrier.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace reprise::querier {

/// What a message is to the queries.
enum class ReplyKind : std::uint8_t { kAnswer, kLate, kDuplicate, kUnmatched, kMalformed };

// Keys of queries that ended lately, to tell a late answer (its query timed out) from a duplicate
// (its query was answered) and from an answer to no query.
//
// A table of fixed size, in sets of eight: constant time, no growth, no clearing. A full set
// forgets its oldest key; an answer to a forgotten key counts as unmatched. 16 bytes a key.

class EndedQueries {
public:
    /// Room for 2^bits keys, each kept for `linger`.
    explicit EndedQueries(Nanoseconds linger, unsigned bits = 20);

    /// Its key will be added soon: the memory it goes to is fetched meanwhile. Always inline: the
    /// compiler removes calls to a function that only prefetches.
    [[gnu::always_inline]] void prefetch(std::uint64_t key) const {
        const Entry* const set = set_of(std::max<std::uint64_t>(key, 1));
        __builtin_prefetch(set, 1);
        __builtin_prefetch(set + kWays / 2, 1);
    }

    /// A query with this key ended at `now`.
    void add(std::uint64_t key, bool answered, Nanoseconds now);

    /// Whether a reply with this key is late, a duplicate, or unmatched. A timed-out query counts
    /// as answered from then on.
    ReplyKind take(std::uint64_t key, Nanoseconds now);

private:
    struct Entry {
        std::uint64_t key; ///< 0 = empty
        std::uint32_t expires_ms;
        std::uint32_t awaited; ///< timed-out queries of this key whose answer has not come
    };

    struct Free {
        void operator()(Entry* entries) const { std::free(entries); }
    };

    static constexpr size_t kWays = 8;

    [[nodiscard]] Entry* set_of(std::uint64_t key) const {
        return &entries_[(key & set_mask_) * kWays];
    }

    static bool expired(const Entry& entry, std::uint32_t now_ms);

    std::uint32_t linger_ms_;
    std::uint64_t set_mask_;
    std::unique_ptr<Entry[], Free> entries_; ///< 16 MiB in large pages, on cache lines
};

/// Hash of a message's first question, its name without regard to ASCII case (RFC 4343). 0 where
/// the message has no question or a malformed one; never 0 otherwise, and `type` is then set to its
/// type.
std::uint64_t question_hash(Bytes message, std::uint16_t* type = nullptr);

/// The message's id; 0 where the message is too short to have one.
std::uint16_t message_id(Bytes message);

class Matcher {
public:
    using Kind = ReplyKind;

    struct Match {
        Kind kind = Kind::kUnmatched;
        std::uint32_t pending = kNone; ///< of kAnswer
        bool trailing = false;         ///< there are bytes after the answer's last record
    };

    /// `linger`: how long the key of an ended query is remembered.
    Matcher(PendingQueries& queries, size_t in_flight_limit, Nanoseconds linger);

    /// The query's owner, wire_id and question are its key until remove() or end().
    void add(std::uint32_t pending);

    /// Takes the key away without a trace (the query moves to another connection).
    void remove(std::uint32_t pending);

    /// As remove(), and remembers how the query ended.
    void end(std::uint32_t pending, bool answered, Nanoseconds now);

    /// Looks up a reply of `size` bytes, or its beginning; the query found stays until end().
    Match match(Owner owner, Bytes reply, size_t size, Nanoseconds now);

    [[nodiscard]] bool id_in_use(Owner owner, std::uint16_t id) const;

private:
    using KeyList = IndexList<&PendingQuery::by_key>;
    using IdList = IndexList<&PendingQuery::by_id>;

    static std::uint64_t id_hash(Owner owner, std::uint16_t id);
    static std::uint64_t key_hash(Owner owner, std::uint16_t id, std::uint64_t question);

    static std::uint64_t key_of(const PendingQuery& query) {
        return key_hash(query.owner, query.wire_id, query.question);
    }

    [[nodiscard]] std::uint32_t find(Owner owner, std::uint16_t id, std::uint64_t question) const;
    [[nodiscard]] std::uint32_t find_by_id(Owner owner, std::uint16_t id) const;
    [[nodiscard]] std::uint32_t find_for(Owner owner, const DnsHeader& header,
                                         std::uint64_t question) const;
    [[nodiscard]] Match match_broken(Owner owner, const DnsHeader& header,
                                     std::uint64_t question) const;

    /// Doubles the tables: they grow with what is in flight, because small ones stay in the
    /// processor's cache.
    void grow();

    PendingQueries& queries_;
    size_t most_buckets_;
    size_t count_ = 0;
    std::uint64_t mask_;
    std::vector<KeyList> by_key_;
    std::vector<IdList> by_id_;
    EndedQueries ended_queries_;
};

} // namespace reprise::querier
