#pragma once
// What a trace holds, counted message by message. Memory does not grow with the trace's length,
// only with its distinct sources (about 64 bytes each) and the queries that wait for their
// response. Names take about 15 MiB at most, then with a known error, retransmits 70 MiB.

#include "core/base/address.hh"
#include "core/base/address_ids.hh"
#include "core/base/clock.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"
#include "mutator/info/info_figures.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {

/// Queries and responses of one kind.
struct Tally {
    std::uint64_t queries = 0;
    std::uint64_t responses = 0;
};

/// Finds the second with the most queries; a query may be up to 60 s older than the newest.
class PeakSecond {
public:
    void add(Nanoseconds time);

    [[nodiscard]] std::int64_t second() const { return second_; }

    [[nodiscard]] std::uint64_t queries() const { return most_; }

private:
    struct Slot {
        std::int64_t second = -1;
        std::uint64_t count = 0;
    };

    std::array<Slot, 64> slots_{};
    std::int64_t second_ = 0;
    std::uint64_t most_ = 0;
};

/// Queries per TCP connection. At most 262,144 connections are followed at once; beyond, the oldest
/// is taken as ended.
class ConnectionTally {
public:
    void add(std::uint64_t connection);

    /// Ends all; queries() is complete afterward.
    void finish();

    /// Connections by number of queries.
    [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& by_queries() const {
        return by_queries_;
    }

    [[nodiscard]] std::uint64_t connections() const;

    /// Those added.
    [[nodiscard]] std::uint64_t queries() const { return queries_; }

private:
    void end_oldest();

    std::uint64_t queries_ = 0;
    std::map<std::uint64_t, std::uint64_t> open_;
    std::map<std::uint64_t, std::uint64_t> by_queries_;
};

/// A source with its number of queries.
using SourceCount = std::pair<IpAddress, std::uint64_t>;

/// Of trace time, after which a query is no retransmit.
inline constexpr Nanoseconds kRetransmitTime = 5 * kSecond;

/// All figures; plain values for the two renderings.
struct TraceFigures {
    Tally all;
    std::map<std::string, Tally> transports;
    Tally ipv4;
    Tally ipv6;
    Nanoseconds first = 0;       ///< the earliest of the queries, since the epoch
    Nanoseconds last = 0;        ///< the latest
    std::uint64_t went_back = 0; ///< queries older than the one before
    Histogram gaps;              ///< between queries, ns
    PeakSecond peak;
    RateBins bins;
    AddressTable sources;
    std::vector<std::uint64_t> source_queries; ///< by number
    Skew skew;                                 ///< of the sources; set by TraceInfo::finish()
    TopKeys names;                 ///< of questions, in wire form and lower case (RFC 4343)
    std::uint64_t retransmits = 0; ///< queries that repeat one within kRetransmitTime
    std::map<std::uint16_t, std::uint64_t> types;
    std::uint64_t no_question = 0; ///< queries whose question cannot be read
    std::map<std::uint8_t, std::uint64_t> opcodes;
    std::uint64_t edns = 0;
    std::uint64_t dnssec_ok = 0;
    std::uint64_t recursion_desired = 0;
    std::map<std::uint16_t, std::uint64_t> edns_sizes;
    std::map<std::uint16_t, std::uint64_t> rcodes;
    std::uint64_t truncated = 0;
    ConnectionTally connections;
    HandshakeFigures handshakes;
    Histogram rtt; ///< from query to response at the capture point, ns
    trace::PairerCounts pairs;

    /// Queries a second between first and last query; 0 below two queries.
    [[nodiscard]] double rate() const;

    /// The `count` busiest sources, ties by address.
    [[nodiscard]] std::vector<SourceCount> top_sources(size_t count) const;

    /// The queries of the `count` busiest sources.
    [[nodiscard]] std::uint64_t top_queries(size_t count) const;
};

/// Feeds messages into the figures.
class TraceInfo {
public:
    TraceInfo();

    void add(const Query& query);

    /// For ReaderOptions::handshakes.
    void add(const trace::TcpHandshake& times) { figures_.handshakes.add(times); }

    void finish();

    [[nodiscard]] const TraceFigures& figures() const { return figures_; }

private:
    void add_query(const Query& query);
    void add_question(const Query& query);
    void add_response(const Query& query);
    void add_time(Nanoseconds time);

    TraceFigures figures_;
    Nanoseconds before_ = 0; ///< of the query added last
    std::string name_;       ///< the same
    trace::Retransmits retransmits_{kRetransmitTime};
    trace::Pairer pairer_;
};

/// What the reader says of the file itself.
struct FileFacts {
    std::string path;
    std::string description;
    std::uint64_t packets = 0;
    trace::Counters counters;
    std::vector<std::string> losses{}; ///< as trace::losses()
    std::string trouble;               ///< empty where the file was whole
};

/// Aligned text for people, with a line end.
std::string info_text(const FileFacts& file, const TraceFigures& figures);

/// One JSON object, schema 1, without a line end.
std::string info_json(const FileFacts& file, const TraceFigures& figures);

} // namespace reprise::mutator
