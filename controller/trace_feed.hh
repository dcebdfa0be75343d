#pragma once
// The Reader of the replay: turns messages into numbered queries, each with its due time, and
// counts what is left out by reason.
//
// Between them come the closes of the trace's clients (Query::is_close()), of connections of which
// a query was played. A close is held back until the query after it is there: the replay ends with
// its last query and does not wait for what only closed later; where the trace is repeated, that is
// closed when the next lap begins. No more are held than the trace's reader follows connections. A
// close has the number of the query after it and is in no count.

#include "controller/options.hh"
#include "controller/selection.hh"
#include "core/base/flat_ids.hh"
#include "core/base/output_file.hh"
#include "core/base/trace_time.hh"
#include "core/rules/engine/chain.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/batch.hh"
#include "core/trace/feed.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/record.hh"

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprise::controller {

using Rcodes = std::array<std::uint64_t, 16>;

/// What was read so far.
struct FeedState {
    /// Queries, skipped ones included. What ends the replay (until, limit, duration_s) is
    /// not one of them.
    std::uint64_t read = 0;
    SkipCounts skipped;
    std::uint64_t responses = 0;
    Rcodes rcodes{};              ///< of the responses, without EDNS's extension
    std::uint64_t without_rd = 0; ///< queries handed out that do not ask for recursion
    std::uint64_t laps = 1;       ///< how often the trace was begun; counts are sums over all laps
    std::uint64_t packets = 0;
    std::uint64_t clock_steps = 0; ///< back, made good
    std::uint64_t sources = 0;
    std::uint64_t source_table_bytes = 0;
    bool beyond = false;                  ///< a query behind replay.until was seen
    trace::Counters counters;             ///< over all laps
    std::vector<rules::RuleCounts> rules; ///< the same
    std::string description;
    std::string trouble;
    std::string error; ///< sources.csv could not be written
    bool ended = false;

    /// Queries of the trace, before rules.
    [[nodiscard]] std::uint64_t of_trace() const {
        return rules.empty() ? read : rules.front().at("seen");
    }
};

/// The connections of a trace of which a query was played: only their closes are. What a rule has
/// moved to TLS is another than what it left on TCP. Memory follows how many there are, whatever
/// their numbers, which a text or stream file may choose: 32 neighbors share an entry of some 50
/// bytes, which goes with the last of them.
class PlayedConnections {
public:
    void add(std::uint64_t connection, Transport transport) {
        entries_[connection / kShared] |= bit(connection, transport);
    }

    /// Forgets the connection; whether it was there.
    bool remove(std::uint64_t connection, Transport transport) {
        const std::uint64_t one = bit(connection, transport);
        const auto found = entries_.find(connection / kShared);
        if (found == entries_.end() || (found->second & one) == 0) {
            return false;
        }
        found->second &= ~one;
        if (found->second == 0) {
            entries_.erase(found);
        }
        return true;
    }

    void clear() { entries_.clear(); }

    /// Of neighbors of which at least one is held.
    [[nodiscard]] size_t entries() const { return entries_.size(); }

private:
    static constexpr std::uint64_t kShared = 32; ///< connections an entry

    static std::uint64_t bit(std::uint64_t connection, Transport transport) {
        return std::uint64_t{transport == Transport::kTls ? 2U : 1U} << 2 * (connection % kShared);
    }

    /// Seeded: a trace cannot be made to collide.
    struct Hash {
        std::uint64_t seed;

        size_t operator()(std::uint64_t key) const noexcept {
            return XXH3_64bits_withSeed(&key, sizeof key, seed);
        }
    };

    std::unordered_map<std::uint64_t, std::uint64_t, Hash> entries_{
        0, Hash{.seed = std::random_device{}()}};
};

/// Numbers source addresses in order of appearance and writes them to sources.csv.
class SourceTable {
public:
    /// Throws SystemError where the file cannot be written.
    explicit SourceTable(const std::string& path);

    std::uint32_t id_of(const IpAddress& address);

    [[nodiscard]] const AddressIds& ids() const { return ids_; }

    /// Flushes what is new, and holds room for more; throws SystemError where the disk has none.
    void flush();

    /// No more sources come: returns when all is on the disk.
    void close() { file_.close(); }

private:
    AppendFile file_;
    std::string line_;
    AddressIds ids_;
    size_t flushed_ = 0; ///< sources already in the file
};

inline constexpr std::uint32_t kMostGenerated = 16'000'000; ///< sources that fit into 10.0.0.0/8

/// The continuous generator: one query for ever, from a number of sources in turn. What a server or
/// the replay itself can do at most is measured with it, without a trace's own cost.
///
/// Source i has the address 10.0.0.1 + i (or 2001:db8::1 + i for an IPv6 server). Query n comes
/// from source n mod sources at time n / rate (0 without a rate); ids count up for each source, and
/// its port follows when they are through, so that keys repeat as late as can be.
class Generator {
public:
    /// Asks for Options::generate, "NAME" (type A) or "NAME/TYPE", the type by its name or as a
    /// number
    /// ("TYPE65"). Throws UsageError where it is none.
    Generator(const Options& options, const Servers& servers);

    /// Next message, good until the next call. There is no end.
    void next(Query& query);

    /// Whether each source has asked.
    [[nodiscard]] bool had_all() const { return next_ >= sources_; }

    [[nodiscard]] std::string description() const { return "generator of " + text_; }

private:
    std::string text_;
    std::uint32_t sources_;
    Endpoint server_;
    Prefix clients_;
    double rate_;
    std::vector<std::uint8_t> message_;
    std::uint64_t next_ = 0;
};

class TraceFeed {
public:
    /// Throws trace::TraceError where the trace cannot be read at all.
    TraceFeed(const Options& options, const Servers& servers);

    /// Next query or close to hand out; false at the end. The message is good until the next call.
    bool next(Query& query);

    /// Brings the account of the queries up to date: FeedState's first two.
    void count(FeedState& state) const {
        state.read = state_.read;
        state.skipped = state_.skipped;
    }

    /// That and the rest, but for the last six, which are as of the last state(); it costs more.
    const FeedState& describe();

    /// All.
    const FeedState& state();

    /// Lets it end when so many queries and responses more were read, whether they are handed out
    /// or not. For a single lap.
    void stop_in(std::uint64_t messages) { most_ = state_.read + state_.responses + messages; }

    /// Whether they were.
    [[nodiscard]] bool stopped() const { return state_.read + state_.responses >= most_; }

    /// Of the trace, in this lap, roughly, 0 to 1; 0 where it is not known.
    [[nodiscard]] double share_read() const { return trace_ ? trace_->share_read() : 0; }

    /// Where replay.until ends it, by the trace's time. After the first query.
    [[nodiscard]] std::optional<Nanoseconds> until() const {
        return until_ ? std::optional(until_->in_trace(first_)) : std::nullopt;
    }

    SourceTable& sources() { return sources_; }

private:
    bool next_query(Query& query);
    [[nodiscard]] bool may_go_on() const;

    /// Whether a time of the trace lies there or behind.
    [[nodiscard]] bool reached(const std::optional<TraceTime>& mark, Nanoseconds time) const {
        return mark && time >= mark->in_trace(first_);
    }

    bool read_query(Query& query);
    bool pull(Query& query);
    void count_rcode(const Query& response);
    void hold_close(Query close);

    [[nodiscard]] Transport played_over(const Query& query) const {
        return transport_.value_or(query.transport);
    }

    void describe(Query& query);
    bool next_lap();
    bool take(Query& query);

    Options options_;
    SourceTable sources_;
    std::optional<Generator> generator_; ///< one of the two
    std::optional<trace::Feed> trace_;   ///< looks into sources_
    rules::Chain rules_;                 ///< on what is read of it
    bool plays_closes_; ///< not without connections, or where the client never closes one
    Batch batch_;       ///< read last
    size_t at_ = 0;     ///< its next query
    Selection selection_;
    SteadyTime steady_;
    Timetable timetable_;
    std::optional<TraceTime> from_;      ///< what is played
    std::optional<TraceTime> until_;     ///< and what no longer is
    Nanoseconds first_ = 0;              ///< the time of the trace's first query
    std::optional<Transport> transport_; ///< instead of the trace's
    Nanoseconds duration_;               ///< of due times; 0: none
    std::uint64_t lap_ = 1;              ///< from 1
    std::uint64_t lap_connections_ = 0;  ///< highest connection of this lap
    std::uint64_t connections_ = 0;      ///< of the laps before
    bool any_ = false;                   ///< a query was seen
    bool ended_ = false;                 ///< by a limit
    FeedState state_;
    Nanoseconds last_due_ = 0; ///< latest due time read
    /// Queries and responses after which it ends.
    std::uint64_t most_ = std::numeric_limits<std::uint64_t>::max();
    PlayedConnections played_;  ///< of this lap
    std::vector<Query> closes_; ///< since the query before, and the query behind them
    size_t closes_out_ = 0;     ///< of these, those given out
};

/// The Reader in a thread of its own: a trace on a slow disk, behind a pipe or in a stretch of
/// other traffic must not hold up the heartbeats of the event loop.
///
/// The thread fills batches of flat records and hands them over through a bounded queue: at most
/// kBatches of kBlockRecords or kBlockBytes, which is 20 MB at most. A reader that finds no full
/// batch takes the one being filled, so nothing waits behind a pipe that pauses.
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
