#pragma once
// What info counts: distributions, the most frequent keys, skew, rates, retransmits, handshakes.

#include "core/base/clock.hh"
#include "core/base/histogram.hh"
#include "core/trace/reassembly/connections.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
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

// Which keys come most often, in bounded memory: exact while there are few, with a known error
// beyond.
//
// At most 65,536 keys are counted. When there are more, the 32,768th greatest count is taken off
// every count and the keys at zero are forgotten. Every such step takes it off at least 32,768
// keys, so no count is ever more than (keys added) / 32,768 too low (Misra and Gries 1982; in steps
// as by Anderson et al. 2017). They lie in one flat table beside one text with all of them: most
// keys of a trace come once, and must not cost an allocation each. Memory: 6 MB and the text.

class TopKeys {
public:
    struct Entry {
        std::string key;
        std::uint64_t count = 0; ///< at least; at most error() more
    };

    explicit TopKeys(size_t kept = 32'768) : kept_(kept), slots_(std::bit_ceil(3 * kept)) {}

    void add(std::string_view key);

    /// The greatest counts, ties by key.
    [[nodiscard]] std::vector<Entry> top(size_t most) const;

    /// 0 while counts are exact.
    [[nodiscard]] std::uint64_t error() const { return error_; }

    /// Keys that are counted: all of them while error() is 0, else those not forgotten.
    [[nodiscard]] size_t size() const { return size_; }

    /// Distinct keys: exact while error() is 0, else by a sketch, and never less than were seen at
    /// once.
    [[nodiscard]] std::uint64_t distinct() const;

private:
    struct Slot {
        std::uint64_t hash = 0;
        std::uint64_t count = 0; ///< 0 = the slot is free
        std::uint32_t begin = 0; ///< of the key in the text
        std::uint32_t length = 0;
    };

    [[nodiscard]] std::string_view key_of(const Slot& slot) const {
        return std::string_view(text_).substr(slot.begin, slot.length);
    }

    /// The key's slot, or the free one where it belongs.
    Slot& slot_of(std::string_view key, std::uint64_t hash);
    void purge();

    size_t kept_;
    std::vector<Slot> slots_; ///< a power of two of them, at most two thirds taken
    std::string text_;
    size_t size_ = 0;
    std::uint64_t spread_ = std::random_device{}() | 1U; ///< a trace cannot be made to collide
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

class HandshakeFigures {
public:
    void add(const trace::TcpHandshake& times);

    [[nodiscard]] std::uint64_t count() const { return rtt_.count(); }

    /// SYN to ACK, ns: the clients' round-trip times wherever the capture was made.
    [[nodiscard]] const Histogram& rtt() const { return rtt_; }

    /// SYN to SYN-ACK: from the capture point to the server and back, with the server's own time.
    [[nodiscard]] const Histogram& to_server() const { return to_server_; }

    /// SYN-ACK to ACK: from the capture point to the client and back.
    [[nodiscard]] const Histogram& to_client() const { return to_client_; }

    /// "server" or "client" where in the median less than a tenth of the time passes on that side,
    /// else "between"; empty without handshakes. With both below, the nearer one.
    [[nodiscard]] std::string_view capture_point() const;

private:
    Histogram rtt_;
    Histogram to_server_;
    Histogram to_client_;
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
std::string grouped(std::uint64_t number);

inline std::string number_text(std::uint64_t number) { return std::to_string(number); }

/// Counts by name, the greatest first; ties by name.
using Named = std::vector<std::pair<std::string, std::uint64_t>>;

template <typename Counts, typename Name> Named named(const Counts& counts, Name name) {
    Named out;
    for (const auto& [key, count] : counts) {
        out.emplace_back(name(key), count);
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return out;
}

} // namespace reprise::mutator
