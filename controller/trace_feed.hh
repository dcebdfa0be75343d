#pragma once
// The Reader of the replay: turns messages into numbered queries, each with its due time, and
// counts what is left out by reason.
//
// Between them come the closes of the trace's clients (Query::is_close()), of connections of which
// a query was played. A close is held back until the query after it is there: the replay ends with
// its last query and does not wait for what only closed later. No more are held than the Reader
// follows connections. A close has the number of the query after it and is in no count.

#include "controller/input.hh"
#include "controller/options.hh"
#include "controller/played_connections.hh"
#include "controller/selection.hh"
#include "controller/source_table.hh"
#include "controller/span.hh"
#include "controller/steady_time.hh"
#include "controller/timetable.hh"
#include "core/trace/reader.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::controller {

/// The trace or the generator, as the options say, for queries numbered by `sources`. Throws where
/// it cannot be read at all.
std::unique_ptr<Input> open_input(const Options& options, const Servers& servers,
                                  const SourceTable& sources);

using Rcodes = std::array<std::uint64_t, 16>;

class TraceFeed {
public:
    /// Throws trace::TraceError where the trace cannot be read at all.
    TraceFeed(const Options& options, const Servers& servers);

    /// Next query or close to hand out; false at the end. The message is good until the next call.
    bool next(Query& query);

    /// Queries read so far, skipped ones included. What ends the replay (--until, --limit,
    /// --duration-s) is not one of them.
    [[nodiscard]] std::uint64_t read() const { return read_; }

    [[nodiscard]] std::uint64_t responses() const { return responses_; }

    /// Steps back of the trace's clock that were made good.
    [[nodiscard]] std::uint64_t clock_steps() const { return steady_.steps(); }

    /// The trace's responses by rcode, without EDNS's extension.
    [[nodiscard]] const Rcodes& rcodes() const { return rcodes_; }

    /// Skipped queries by reason.
    [[nodiscard]] const SkipCounts& skips() const { return skips_; }

    [[nodiscard]] const Input& input() const { return *input_; }

    /// Of the whole replay, 0 to 1; 0 where it is not known.
    [[nodiscard]] double share_read() const;

    [[nodiscard]] const SourceTable& sources() const { return sources_; }

    /// Hands new sources to the file; throws SystemError where the disk is full.
    void flush_sources() { sources_.flush(); }

    void close_sources() { sources_.close(); }

private:
    bool next_query(Query& query);
    bool pull(trace::Message& message);
    void count_rcode(const trace::Message& response);
    void hold_close(const trace::Message& message);
    void describe(const trace::Message& message, Query& query);
    bool next_lap();
    bool take(const trace::Message& message, Query& query);
    bool skip(Skip reason);

    SourceTable sources_;
    std::unique_ptr<Input> input_; ///< may look into sources_
    Selection selection_;
    SteadyTime steady_;
    Timetable timetable_;
    Span span_;
    std::optional<Transport> transport_; ///< instead of the trace's
    std::uint64_t laps_;                 ///< 0: for ever
    std::uint64_t limit_;                ///< of queries handed out; 0: none
    Nanoseconds duration_;               ///< of due times; 0: none
    std::uint64_t lap_ = 1;              ///< from 1
    std::uint64_t lap_connections_ = 0;  ///< highest connection of this lap
    std::uint64_t connections_ = 0;      ///< of the laps before
    Nanoseconds last_due_ = 0;
    bool any_ = false;   ///< a query was seen
    bool ended_ = false; ///< by a limit
    std::uint64_t read_ = 0;
    std::uint64_t responses_ = 0;
    Rcodes rcodes_{};
    SkipCounts skips_;
    PlayedConnections played_;  ///< of this lap
    std::vector<Query> closes_; ///< since the query before
    size_t closes_out_ = 0;     ///< of them, those handed out
    Query behind_;              ///< the query that follows closes_, if they are handed out
};

} // namespace reprise::controller
