#include "core/trace/forms/query_source.hh"

#include "core/trace/reassembly/message.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace reprise::trace {
namespace {

bool is_response(const Query& query) {
    return query.message.size() > 2 && (query.message[2] & 0x80U) != 0;
}

} // namespace

bool SeenConnections::first(std::uint64_t connection, bool response) {
    const std::uint64_t key = connection * 2 + (response ? 1U : 0U);
    if (young_.size() >= kMost) {
        old_ = std::exchange(young_, {});
    }
    const bool known = old_.contains(key);
    return young_.insert(key).second && !known;
}

bool QuerySource::next(Message& message) {
    Query query;
    do {
        if (!trouble_.empty() || !next_query(query)) {
            return false;
        }
        ++items_;
    } while (query.is_close() && !closes_);
    const bool response = is_response(query);
    good_ += query.is_close() ? 0U : 1U;
    message = {.time = query.trace_time,
               .source = query.source,
               .destination = query.destination,
               .transport = query.transport,
               .connection = query.connection,
               .first_in_connection = !query.is_close() && query.connection != 0 &&
                                      seen_.first(query.connection, response),
               .response = response,
               .closes = query.is_close(),
               .rtt_class = query.rtt_class,
               .idle_class = query.idle_class,
               .bytes = query.message};
    return true;
}

bool QuerySource::fail(const std::string& place, const std::string& what) {
    trouble_ = fmt::format("{}{}{} ({} {} good)", place, place.empty() ? "" : ", ", what, good_,
                           good_ == 1 ? "query was" : "queries were");
    return false;
}

} // namespace reprise::trace
