#pragma once
// The queries that wait for the server's answer: all that the front remembers.

#include "core/base/clock.hh"
#include "core/base/random.hh"
#include "proxy/stateless/userspace/segment.hh"

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

namespace reprise::proxy::stateless {

/// Sockets that ask the server, of each family. A query is known by its socket and its message id,
/// so that four times 65,536 can be told apart.
inline constexpr unsigned kSockets = 4;

/// Names an entry: socket and message id.
struct QueryKey {
    std::uint8_t socket = 0;
    std::uint16_t id = 0;

    bool operator==(const QueryKey&) const = default;
};

struct Pending {
    Connection connection;
    QueryKey key;                ///< as the server sees it
    std::uint16_t client_id = 0; ///< the client's message id
    std::uint16_t mss = 0;
    std::uint32_t query_seq = 0; ///< of the segment with the query
    std::uint32_t seq = 0;       ///< of the answer's first byte
    std::uint32_t ack = 0;       ///< what the answer acknowledges
    std::uint32_t question = 0;  ///< hash of the question; 0 where it could not be read
    Nanoseconds deadline = 0;
};

/// At most one entry a connection. The timeout is the same for all, so entries expire in the order
/// in which they came.
class PendingQueries {
public:
    /// `random` must outlive this.
    PendingQueries(size_t limit, Random& random) : limit_(limit), random_(random) {}

    /// Adds an entry under a new random key; where there is no room the oldest one goes first.
    /// Good until the next call.
    const Pending& add(Pending entry);

    [[nodiscard]] const Pending* find(const Connection& connection) const;
    [[nodiscard]] const Pending* find(QueryKey key) const;

    /// Takes an entry out; false where there is none.
    bool remove(const Connection& connection);

    /// Removes the entries whose deadline has come; how many. What is added and removed before the
    /// next call is so at this time.
    size_t expire(Nanoseconds now);

    /// The first deadline.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const;

    [[nodiscard]] size_t size() const { return entries_.size(); }

    [[nodiscard]] size_t peak() const { return peak_; }

    [[nodiscard]] size_t limit() const { return limit_; }

    [[nodiscard]] size_t evictions() const { return evictions_; }

    /// The lives of all entries until the last expire(), summed.
    [[nodiscard]] Nanoseconds lived() const {
        return lived_ + static_cast<Nanoseconds>(entries_.size()) * now_;
    }

    /// As measured: the nodes of the list and of both tables, and the tables' places.
    static constexpr size_t kBytesPerEntry = 96 + 64 + 32 + 24;

private:
    using Entries = std::list<Pending>; ///< the oldest first

    struct KeyHash {
        size_t operator()(QueryKey key) const noexcept {
            return size_t{key.socket} << 16U | key.id;
        }
    };

    void erase(Entries::iterator entry);
    QueryKey free_key();

    size_t limit_;
    Random& random_;
    Entries entries_;
    std::unordered_map<Connection, Entries::iterator> by_connection_;
    std::unordered_map<QueryKey, Entries::iterator, KeyHash> by_key_;
    Nanoseconds now_ = 0;
    Nanoseconds lived_ = 0; ///< when entries went less when they came
    size_t peak_ = 0;
    size_t evictions_ = 0;
};

} // namespace reprise::proxy::stateless
