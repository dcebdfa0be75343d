#include "controller/trace_feed.hh"

#include "controller/options.hh"
#include "controller/selection.hh"
#include "core/base/error.hh"
#include "core/base/host.hh"
#include "core/base/text.hh"
#include "core/base/trace_time.hh"
#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh"
#include "core/trace/chunk.hh"
#include "core/trace/feed.hh"
#include "core/wire/query.hh"
#include "core/wire/settings.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <linux/capability.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::controller {
namespace {

constexpr std::uint16_t kRecursionDesired = 0x0100;
constexpr double kDay = 86'400;
constexpr std::uint64_t kRoom = 256UL << 10U; ///< a full buffer of sources

/// The longest way back in time that the hosts still play; at a rate or with no times at all none
/// is too long.
std::optional<Nanoseconds> longest_way_back(const Options& options) {
    if (options.replay.fast || options.replay.rate > 0) {
        return std::nullopt;
    }
    constexpr double kMost = 1e18;
    return static_cast<Nanoseconds>(
        std::min(kMost, options.replay.max_lateness_s * 1e9 * options.replay.speed));
}

/// Throws Error where the replay would wait for days: `gap` seconds of the trace without a query,
/// behind `second` of it. A clock was wrong, or the file is made of several captures.
void demand_no_gap(const Options& options, double second, double gap) {
    const bool waits = !options.replay.fast && options.replay.rate == 0 &&
                       options.replay.duration_s == 0 && options.replay.limit == 0;
    if (waits && gap / options.replay.speed > kDay) {
        throw Error(fmt::format(
            "{} has no query for {:.0f} days from second {:.3f} of the trace on, and the replay "
            "would wait; end there (replay.until), begin after it (replay.from), or give "
            "replay.rate or replay.fast",
            options.trace, gap / kDay, second));
    }
}

constexpr std::uint64_t kIds = 65'536;
constexpr std::uint16_t kFirstPort = 1'024;
constexpr std::uint64_t kPorts = 64'000;

} // namespace

TraceFeed::TraceFeed(const Options& options, const Servers& servers)
    : options_(options),
      sources_(options.check.empty() ? options.results + "/sources.csv" : "/dev/null"),
      rules_(options.rules),
      plays_closes_(options.replay.transport != "udp" && options.replay.closer == "client"),
      selection_(options, servers), steady_(longest_way_back(options)), timetable_(options.replay),
      from_(TraceTime::parse(options.replay.from)), until_(TraceTime::parse(options.replay.until)),
      transport_(transport_of(options.replay)),
      duration_(static_cast<Nanoseconds>(options.replay.duration_s * 1e9)) {
    if (!options.generate.empty()) {
        generator_.emplace(options, servers);
    } else {
        trace_.emplace(trace::FeedOptions{
            .paths = {options.trace},
            .reader = {.ports = options.replay.ports, .closes = plays_closes_ || !rules_.empty()},
            .responses = trace::Responses::kHeaders,
            // With 100,000 sources each query would wait for a line of the table to come from
            // memory, which costs as much as all the rest of the reading.
            .expect = [this](const IpAddress& source) { sources_.ids().expect(source); }});
        trace_->open();
        if (options_.replay.loop == 1) { // else it is opened again
            give_up({CAP_DAC_READ_SEARCH});
        }
    }
}

const FeedState& TraceFeed::describe() {
    state_.laps = lap_;
    state_.packets = trace_ ? trace_->packets() : 0;
    state_.clock_steps = steady_.steps();
    state_.sources = sources_.ids().size();
    state_.source_table_bytes = sources_.ids().memory();
    return state_;
}

const FeedState& TraceFeed::state() {
    describe();
    if (trace_) {
        state_.counters = trace_->counters();
        state_.rules = rules_.counts();
        state_.description = trace_->end().description;
        state_.trouble = trace_->end().trouble;
    }
    if (generator_) {
        state_.description = generator_->description();
    }
    return state_;
}

/// The next query, response or close; false at the end.
bool TraceFeed::read_query(Query& query) {
    if (generator_) {
        generator_->next(query);
        return true;
    }
    if (at_ == batch_.queries.size()) {
        if (stopped()) {
            return false;
        }
        at_ = 0;
        if (!trace_ || !rules_.read(*trace_, batch_)) {
            return false;
        }
    }
    query = batch_.queries[at_++];
    return true;
}

/// A trace that could not be read whole, or of which nothing was taken, is not begun again. Throws
/// where it has gone.
bool TraceFeed::next_lap() {
    const std::uint64_t laps = options_.replay.loop;
    if (!trace_ || !trace_->end().trouble.empty() || (laps > 0 && lap_ >= laps) ||
        timetable_.taken_in_lap() == 0) {
        return false;
    }
    ++lap_;
    steady_.next_lap();
    timetable_.next_lap();
    connections_ += std::exchange(lap_connections_, 0);
    played_.clear();
    batch_.clear();
    at_ = 0;
    trace_->restart();
    trace_->open();
    rules_.restart();
    selection_.restart();
    return true;
}

/// Next query of the span, its time on the axis of all laps.
bool TraceFeed::pull(Query& query) {
    while (true) {
        const bool more = read_query(query);
        if (more && query.is_close()) {
            if (plays_closes_) {
                query.time = steady_.of_close(query.time);
                hold_close(query);
            }
            continue;
        }
        if (more && query.is_response()) {
            ++state_.responses;
            count_rcode(query);
            continue;
        }
        if (more) {
            query.time = steady_.of_query(query.time);
            if (!std::exchange(any_, true)) {
                first_ = query.time;
            }
            if (!reached(until_, query.time)) {
                return true;
            }
            state_.beyond = true;
        }
        if (!next_lap()) {
            return false;
        }
    }
}

/// Without EDNS's extension.
void TraceFeed::count_rcode(const Query& response) {
    if (const auto header = parse_header(response.message)) {
        ++state_.rcodes.at(header->rcode());
    }
}

/// A close belongs to what is played if a query of its connection does, and it comes before the
/// end. One that is told late, for want of a segment, is no longer due when it was.
void TraceFeed::hold_close(Query close) {
    if (!played_.remove(close.connection, played_over(close)) || reached(until_, close.time)) {
        return;
    }
    close.time = timetable_.shifted(close.time);
    close.due = std::max(timetable_.due_of_close(close.time), last_due_);
    close.sequence = state_.read;
    if (duration_ == 0 || close.due < duration_) {
        describe(close);
        closes_.push_back(close);
    }
}

bool TraceFeed::next(Query& query) {
    if (closes_.empty()) {
        if (!next_query(query)) {
            closes_.clear();
            return false;
        }
        if (closes_.empty()) {
            return true;
        }
        closes_.push_back(query);
    }
    query = closes_[closes_out_++];
    if (closes_out_ == closes_.size()) {
        closes_.clear();
        closes_out_ = 0;
    }
    query.due = std::min(query.due, last_due_); // else the query behind it would wait
    return true;
}

/// What is made up has no end: where none of its sources may ask, none ever will.
bool TraceFeed::may_go_on() const {
    const bool in_vain = generator_ && generator_->had_all() && timetable_.taken() == 0;
    return !ended_ && !in_vain &&
           (options_.replay.limit == 0 || timetable_.taken() < options_.replay.limit);
}

bool TraceFeed::next_query(Query& query) {
    while (may_go_on() && pull(query)) {
        const bool before = from_ && !reached(from_, query.time);
        query.time = timetable_.shifted(query.time);
        const Skip reason = before ? Skip::kFrom : selection_.judge(query);
        if (reason == Skip::kNone) {
            return take(query);
        }
        ++state_.read;
        state_.skipped.add(reason);
    }
    return false;
}

bool TraceFeed::take(Query& query) {
    query.due = timetable_.due(query.time);
    if (duration_ > 0 && query.due >= duration_) {
        ended_ = true;
        return false;
    }
    const double speed = options_.replay.speed / 1e9;
    const double gap = static_cast<double>(query.due - last_due_) * speed;
    demand_no_gap(options_, static_cast<double>(query.time - first_) / 1e9 - gap, gap);
    timetable_.take(query.time);
    last_due_ = std::max(last_due_, query.due);
    lap_connections_ = std::max(lap_connections_, query.connection);
    if (query.connection != 0) {
        played_.add(query.connection, played_over(query));
    }
    describe(query);
    query.sequence = state_.read++;
    const auto header = parse_header(query.message);
    state_.without_rd += header && (header->flags & kRecursionDesired) == 0 ? 1U : 0U;
    return true;
}

/// What the replay makes of a query's or close's source, connection and transport.
void TraceFeed::describe(Query& query) {
    query.source_id = sources_.id_of(query.source.address);
    query.connection += query.connection == 0 ? 0 : connections_;
    query.transport = played_over(query);
}

SourceTable::SourceTable(const std::string& path) : file_(path, AppendFile::Existing::kReplace) {
    file_.append("id,address\n");
    file_.flush();
}

std::uint32_t SourceTable::id_of(const IpAddress& address) {
    const auto [id, fresh] = ids_.find_or_add(address, ids_.size());
    if (fresh) {
        line_.clear();
        fmt::format_to(std::back_inserter(line_), "{},{}\n", id, address.text());
        file_.append(line_);
    }
    return id;
}

void SourceTable::flush() {
    if (std::exchange(flushed_, ids_.size()) != ids_.size()) {
        file_.flush();
        file_.reserve(kRoom);
    }
}

Generator::Generator(const Options& options, const Servers& servers)
    : text_(options.generate), sources_(options.generate_sources),
      server_(servers.v4 ? *servers.v4 : servers.v6.value_or(Endpoint{})),
      clients_(known_prefix(server_.address.is_v4() ? "10.0.0.0/8" : "2001:db8::/32")),
      rate_(options.replay.rate) {
    const size_t slash = text_.rfind('/');
    const std::string word = slash == std::string::npos ? "A" : text_.substr(slash + 1);
    const auto name = parse_name(text_.substr(0, slash));
    const auto by_name = type_number(word);
    const auto type = by_name ? by_name : parse_number<std::uint16_t>(word);
    if (!name || !type) {
        throw UsageError(
            fmt::format("--generate {}: not NAME[/TYPE], e.g. www.example.com/AAAA", text_));
    }
    build_query(message_, {.type = *type, .recursion_desired = options.generate_rd}, name->bytes());
}

void Generator::next(Query& query) {
    const std::uint64_t turn = next_ / sources_;
    store16(message_.data(), turn);
    query.time = rate_ > 0 ? std::llround(static_cast<double>(next_) * 1e9 / rate_) : 0;
    query.source.address = clients_.host(1 + next_ % sources_).value_or(IpAddress{});
    query.source.port = static_cast<std::uint16_t>(kFirstPort + turn / kIds % kPorts);
    query.destination = server_;
    query.transport = Transport::kUdp;
    query.connection = 0;
    query.message = message_;
    ++next_;
}

} // namespace reprise::controller
