#pragma once
// Rules made as the command line makes them, and run over a trace made by hand.

#include "core/base/clock.hh"
#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/testing/support.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
namespace reprise::rules {

inline constexpr Nanoseconds kStart = 1'475'762'100 * kSecond;

/// A query that owns its message.
struct Owned {
    Nanoseconds time = 0;
    Endpoint source;
    Endpoint destination{*IpAddress::parse("192.0.2.53"), 53};
    std::uint64_t connection = 0;
    Transport transport = Transport::kUdp;
    std::vector<std::uint8_t> message;

    bool operator==(const Owned&) const = default;

    [[nodiscard]] bool is_close() const { return message.empty(); }
};

inline Owned query_at(Nanoseconds time, const std::string& source = "192.0.2.1",
                      std::uint16_t id = 1, const std::string& name = "www.example") {
    Owned query;
    query.time = time;
    query.source = {*IpAddress::parse(source), 4000};
    query.message = query_bytes(id, name);
    return query;
}

inline Owned tcp_at(Nanoseconds time, std::uint64_t connection,
                    const std::string& source = "192.0.2.1") {
    Owned query = query_at(time, source);
    query.transport = Transport::kTcp;
    query.connection = connection;
    return query;
}

inline Owned close_at(Nanoseconds time, std::uint64_t connection,
                      const std::string& source = "192.0.2.1") {
    Owned close = tcp_at(time, connection, source);
    close.message.clear();
    return close;
}

inline std::unique_ptr<Rule> make_rule(const std::string& kind, const std::string& value,
                                       std::uint64_t seed = 1, bool drop_malformed = false) {
    RuleSet set{.settings = {.seed = seed, .drop_malformed = drop_malformed}, .rules = {}};
    set.rules.push_back(parse_rule_option(kind, value));
    return std::move(make_rules(set).front());
}

inline void fill(Batch& batch, const std::vector<Owned>& trace, size_t from, size_t count) {
    batch.clear();
    for (size_t i = from; i < std::min(from + count, trace.size()); ++i) {
        Query query;
        query.time = trace[i].time;
        query.source = trace[i].source;
        query.destination = trace[i].destination;
        query.connection = trace[i].connection;
        query.transport = trace[i].transport;
        query.message = batch.copy(trace[i].message);
        batch.queries.push_back(query);
    }
}

inline void take(const Batch& batch, std::vector<Owned>& out) {
    for (const Query& query : batch.queries) {
        out.push_back({.time = query.time,
                       .source = query.source,
                       .destination = query.destination,
                       .connection = query.connection,
                       .transport = query.transport,
                       .message = {query.message.begin(), query.message.end()}});
    }
}

/// The trace behind the rule, which saw it in batches of `cut`.
inline std::vector<Owned> run(Rule& rule, const std::vector<Owned>& trace, size_t cut = 4096) {
    std::vector<Owned> out;
    Batch batch;
    if (rule.surveys()) {
        fill(batch, trace, 0, trace.size());
        for (const Query& query : batch.queries) {
            rule.survey(query);
        }
    }
    for (size_t from = 0; from < trace.size(); from += cut) {
        fill(batch, trace, from, cut);
        rule.apply(batch);
        take(batch, out);
        while (rule.has_more()) {
            batch.clear();
            rule.apply(batch);
            take(batch, out);
        }
    }
    batch.clear();
    rule.finish(batch);
    take(batch, out);
    return out;
}

inline std::vector<Owned> run(const std::string& kind, const std::string& value,
                              const std::vector<Owned>& trace, size_t cut = 4096,
                              std::uint64_t seed = 1) {
    return run(*make_rule(kind, value, seed), trace, cut);
}

inline std::vector<Nanoseconds> times_of(const std::vector<Owned>& trace) {
    std::vector<Nanoseconds> times;
    std::ranges::transform(trace, std::back_inserter(times), &Owned::time);
    return times;
}

/// `count` queries, `gap` apart, from 10 sources in turn.
inline std::vector<Owned> steady(size_t count, Nanoseconds gap, Nanoseconds first = 0) {
    std::vector<Owned> trace;
    trace.reserve(count);
    for (size_t i = 0; i < count; ++i) {
        trace.push_back(i < 10 ? query_at(0, "192.0.2." + std::to_string(i + 1)) : trace[i - 10]);
        trace[i].time = first + static_cast<Nanoseconds>(i) * gap;
        trace[i].message[0] = static_cast<std::uint8_t>(i >> 8U);
        trace[i].message[1] = static_cast<std::uint8_t>(i);
    }
    return trace;
}

inline std::string complaint(const std::string& kind, const std::string& value) {
    try {
        make_rule(kind, value);
    } catch (const RuleError& error) {
        return error.what();
    }
    return "";
}

} // namespace reprise::rules

// NOLINTEND(bugprone-unchecked-optional-access)
