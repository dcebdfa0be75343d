#include "controller/trace_feed.hh"

#include "controller/generator.hh"
#include "controller/input.hh"
#include "controller/moment.hh"
#include "controller/options.hh"
#include "controller/selection.hh"
#include "core/address.hh"
#include "core/clock.hh"
#include "core/query.hh"
#include "core/trace/reader.hh"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::controller {
namespace {

std::optional<Moment> moment(const std::string& text) {
    return text.empty() ? std::nullopt : Moment::parse(text);
}

double share_of(std::uint64_t done, std::uint64_t all) {
    return all == 0 ? 0 : static_cast<double>(done) / static_cast<double>(all);
}

} // namespace

std::unique_ptr<Input> open_input(const Options& options, const Servers& servers) {
    if (const auto question = Question::parse(options.generate)) {
        const Endpoint& server = servers.v4 ? *servers.v4 : servers.v6.value_or(Endpoint{});
        return std::make_unique<Generator>(*question, options.generate_sources, server,
                                           options.pace.rate);
    }
    return std::make_unique<TraceInput>(options.trace,
                                        trace::ReaderOptions{.ports = options.ports});
}

TraceFeed::TraceFeed(const Options& options, const Servers& servers)
    : input_(open_input(options, servers)), selection_(options, servers), timetable_(options.pace),
      span_(moment(options.from), moment(options.until)),
      sources_(options.results + "/sources.csv"), laps_(options.loop), limit_(options.limit),
      duration_(static_cast<Nanoseconds>(options.duration_s * 1e9)) {}

double TraceFeed::share_read() const {
    const double lap = share_of(lap_ - 1, laps_) +
                       (laps_ == 0 ? 0 : input_->share_read() / static_cast<double>(laps_));
    const double time =
        duration_ == 0 ? 0 : static_cast<double>(last_due_) / static_cast<double>(duration_);
    return std::min(1.0, std::max({lap, time, share_of(timetable_.taken(), limit_)}));
}

/// A trace that could not be read whole, or of which nothing was taken, is not begun again.
bool TraceFeed::next_lap() {
    const bool again =
        (laps_ == 0 || lap_ < laps_) && timetable_.taken_in_lap() > 0 && input_->trouble().empty();
    if (again) {
        ++lap_;
        timetable_.next_lap();
        connections_ += std::exchange(lap_connections_, 0);
        input_->restart();
    }
    return again;
}

/// Next query of the span, its time on the axis of all laps.
bool TraceFeed::pull(trace::Message& message) {
    while (true) {
        if (!input_->next(message) || (any_ && !message.response && span_.after(message.time))) {
            if (!next_lap()) {
                return false;
            }
            continue;
        }
        if (!message.response) {
            return true;
        }
        ++responses_;
    }
}

bool TraceFeed::skip(Skip reason) {
    if (reason == Skip::kNone) {
        return false;
    }
    ++read_;
    skips_.add(reason);
    return true;
}

bool TraceFeed::next(Query& query) {
    trace::Message message;
    while (!ended_ && (limit_ == 0 || timetable_.taken() < limit_) && pull(message)) {
        if (!std::exchange(any_, true)) {
            span_.set_first(message.time);
            if (span_.after(message.time)) {
                break;
            }
        }
        const bool before = span_.before(message.time);
        message.time = timetable_.shifted(message.time);
        if (!skip(before ? Skip::kFrom : selection_.judge(message))) {
            return take(message, query);
        }
    }
    return false;
}

bool TraceFeed::take(const trace::Message& message, Query& query) {
    query.due = timetable_.due(message.time);
    if (duration_ > 0 && query.due >= duration_) {
        ended_ = true;
        return false;
    }
    timetable_.take(message.time);
    last_due_ = std::max(last_due_, query.due);
    lap_connections_ = std::max(lap_connections_, message.connection);
    query.sequence = read_++;
    query.trace_time = message.time;
    query.source = message.source;
    query.destination = message.destination;
    query.source_id = sources_.id_of(message.source.address);
    query.connection = message.connection == 0 ? 0 : connections_ + message.connection;
    query.transport = message.transport;
    query.message = message.bytes;
    return true;
}

} // namespace reprise::controller
