#pragma once
// What a trace holds, counted message by message. Memory does not grow with the trace's length,
// only with its distinct sources (about 64 bytes each) and the queries that wait for their
// response. Names take about 15 MiB at most, then with a known error, retransmits 70 MiB.

#include "core/base/flat_ids.hh"
#include "core/base/histogram.hh"
#include "core/trace/pairs.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::mutator {

/// How many different keys there are, within 0.8 % (standard error) in 16 KiB: HyperLogLog
/// (Flajolet, Fusy, Gandouet and Meunier 2007) over a 64-bit hash, so without their correction for
/// great counts, and linear counting while many registers are empty.
class DistinctSketch {
public:
    static constexpr double kStandardError = 0.0081;

    /// Of a key: 64 bits that are spread evenly.
    void add(std::uint64_t hash);

    [[nodiscard]] std::uint64_t estimate() const;

private:
    static constexpr unsigned kBits = 14;

    std::array<std::uint8_t, 1U << kBits> registers_{};
};

/// Counts by name, the greatest first; ties by name.
using Named = std::vector<std::pair<std::string, std::uint64_t>>;

/// Their order.
struct Greatest {
    bool operator()(const auto& a, const auto& b) const {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    }
};

// Which keys come most often, in bounded memory: exact while there are few, with a known error
// beyond.
//
// At most 65,536 keys are counted. When there are more, the 32,768th greatest count is taken off
// every count and the keys at zero are forgotten. Every such step takes it off at least 32,768
// keys, so no count is ever more than (keys added) / 32,768 too low (Misra and Gries 1982; in steps
// as by Anderson et al. 2017). They lie in one text: most keys of a trace come once, and must not
// cost an allocation each. They are told apart by 64 bits of a hash that no trace knows. Memory: 4
// MB and the text.

class TopKeys {
public:
    explicit TopKeys(size_t kept = 32'768) : kept_(kept) {}

    void add(std::string_view key);

    /// The greatest counts. Each is at least so, at most error() more.
    [[nodiscard]] Named top(size_t most) const;

    /// 0 while counts are exact.
    [[nodiscard]] std::uint64_t error() const { return error_; }

    /// Keys that are counted: all of them while error() is 0, else those not forgotten.
    [[nodiscard]] size_t size() const { return counted_.size(); }

    /// Distinct keys: exact while error() is 0, else by a sketch, and never less than were seen at
    /// once.
    [[nodiscard]] std::uint64_t distinct() const;

private:
    using Numbers = FlatIds<sizeof(std::uint64_t)>;

    struct Counted {
        std::uint64_t count = 0;
        std::uint32_t begin = 0; ///< of the key in the text
        std::uint32_t length = 0;
    };

    bool count(std::string_view key, std::uint64_t times);
    void purge();

    size_t kept_;
    std::uint64_t seed_ = std::random_device{}();
    Numbers numbers_; ///< by hash
    std::vector<Counted> counted_;
    std::string text_;
    std::uint64_t error_ = 0;
    DistinctSketch sketch_;
    size_t most_ = 0; ///< keys counted at once
};

// How unevenly queries are spread over sources.

/// The busiest `sources` sources ask this share of the queries.
struct SkewPoint {
    std::uint64_t sources = 0;
    double share = 0;
};

struct Skew {
    double busiest_1_percent = 0;  ///< share of the queries that the busiest 1 % of sources ask
    double busiest_10_percent = 0; ///< (their number rounded up)
    /// The n-th source asks n^-zipf as much as the first: the exponent under which the counts are
    /// the most likely. 0 for sources that are all alike.
    double zipf = 0;
    std::vector<SkewPoint> curve; ///< at most 100 points, spaced evenly in the logarithm
};

/// From the number of queries of every source, in any order.
Skew measure_skew(std::vector<std::uint64_t> queries);

// Queries over time, in bounded memory whatever the trace's length.

/// Counts in bins of one width, the first from the first query on. When 512 bins do not reach, the
/// width doubles and neighbors become one. Queries older than the first count in the first bin.
class RateBins {
public:
    static constexpr size_t kMost = 512;

    void add(Nanoseconds time);

    [[nodiscard]] Nanoseconds start() const { return start_; }

    /// A power of two times 1/64 s.
    [[nodiscard]] double width_s() const { return static_cast<double>(width_) / 1e9; }

    /// The last bin may be shorter than its width.
    [[nodiscard]] const std::vector<std::uint64_t>& queries() const { return queries_; }

private:
    void merge();

    Nanoseconds start_ = 0;
    std::uint64_t width_ = kSecond / 64;
    std::vector<std::uint64_t> queries_;
};

// Round-trip times from the TCP handshakes of a capture.

struct HandshakeFigures {
    Histogram rtt;       ///< SYN to ACK, ns: the clients' round trips wherever the capture was made
    Histogram to_server; ///< SYN to SYN-ACK: from there to the server and back, with its own time
    Histogram to_client; ///< SYN-ACK to ACK: from there to the client and back

    void add(const trace::TcpHandshake& times);

    /// "server" or "client" where in the median less than a tenth of the time passes on that side,
    /// else "between"; empty without handshakes. With both below, the nearer one.
    [[nodiscard]] std::string_view capture_point() const;
};

// Numbers, times and counts as the renderings of `info` show them.

/// 0 of nothing.
double share(std::uint64_t part, std::uint64_t whole);

inline double percent(std::uint64_t part, std::uint64_t whole) { return 100 * share(part, whole); }

inline double microseconds(double nanoseconds) { return nanoseconds / 1e3; }

inline double microseconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;
}

/// UTC, e.g. "2016-10-06T13:55:00.009660000Z".
std::string utc(Nanoseconds time);

/// 1234567 as "1,234,567".
inline std::string grouped(std::uint64_t number) {
    return fmt::format("{}", fmt::group_digits(number));
}

inline std::string number_text(std::uint64_t number) { return std::to_string(number); }

template <typename Counts, typename Name> Named named(const Counts& counts, Name name) {
    Named out;
    for (const auto& [key, count] : counts) {
        out.emplace_back(name(key), count);
    }
    std::ranges::sort(out, Greatest{});
    return out;
}

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

/// Queries per TCP connection. At most 262,144 connections are followed at once; beyond, those that
/// were not used for the longest time are taken as ended.
class ConnectionTally {
public:
    void add(std::uint64_t connection);

    /// Connections by number of queries.
    [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& by_queries() const {
        return by_queries_;
    }

    [[nodiscard]] std::uint64_t connections() const { return connections_; }

    /// Those added.
    [[nodiscard]] std::uint64_t queries() const { return queries_; }

private:
    std::uint64_t queries_ = 0;
    std::uint64_t connections_ = 0;
    Recent<std::uint64_t> followed_{std::numeric_limits<Nanoseconds>::max(), 262'144}; ///< queries
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
