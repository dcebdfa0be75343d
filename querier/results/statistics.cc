#include "querier/results/statistics.hh"

#include "core/base/json.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"

#include <string>
#include <sys/resource.h>

namespace reprise::querier {

namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

Json counts_json(const Statistics& s) {
    return {{"received", s.received},
            {"sent", s.sent},
            {"answered", s.answered},
            {"timed_out", s.timed_out},
            {"send_failed", s.send_failed},
            {"connection_failed", s.connection_failed},
            {"skipped", s.skipped},
            {"late", s.late},
            {"duplicate_answers", s.duplicate_answers},
            {"unmatched", s.unmatched},
            {"malformed", s.malformed},
            {"retried", s.retried},
            {"sent_late", s.sent_late},
            {"send_unsure", s.send_unsure}};
}

Json connections_json(const Statistics& s) {
    return {{"opened", s.connections_opened},
            {"reused_queries", s.reused_queries},
            {"peak_open", s.peak_open},
            {"closed_by_server", s.closed_by_server},
            {"closed_idle", s.closed_idle},
            {"closed_used_up", s.closed_used_up},
            {"closed_by_trace", s.closed_by_trace},
            {"evicted", s.connections_evicted},
            {"half_open", s.half_open},
            {"bad_streams", s.bad_streams},
            {"failed", s.connections_failed},
            {"resumed", s.resumed},
            {"early_data", s.early_data},
            {"early_data_rejected", s.early_data_rejected}};
}

Json failures_json(const Failures& failures) {
    Json out = Json::object();
    for (const auto& [reason, count] : failures.counts()) {
        out[reason] = count;
    }
    if (failures.other() > 0) {
        out["other"] = failures.other();
    }
    return out;
}

} // namespace

void Statistics::count_end(Status status) {
    switch (status) {
    case Status::kAnswered:
        ++answered;
        return;
    case Status::kTimedOut:
        ++timed_out;
        return;
    case Status::kSendFailed:
        ++send_failed;
        return;
    case Status::kConnectionFailed:
        ++connection_failed;
        return;
    case Status::kSkipped:
        ++skipped;
        return;
    }
}

void Statistics::fill(wire::Counts& counts) const {
    counts.set_received(received);
    counts.set_sent(sent);
    counts.set_answered(answered);
    counts.set_timed_out(timed_out);
    counts.set_send_failed(send_failed);
    counts.set_connection_failed(connection_failed);
    counts.set_skipped(skipped);
    counts.set_late(late);
    counts.set_duplicate_answers(duplicate_answers);
    counts.set_unmatched(unmatched);
    counts.set_malformed(malformed);
    counts.set_retried(retried);
    counts.set_sent_late(sent_late);
    counts.set_send_unsure(send_unsure);
}

std::string statistics_json(const Statistics& s, bool clean, const std::string& because) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return json_text({{"schema", 1},
                      {"clean", clean},
                      {"because", because},
                      {"counts", counts_json(s)},
                      {"connections", connections_json(s)},
                      {"failures", failures_json(s.failures)},
                      {"tcp_fallbacks", s.tcp_fallbacks},
                      {"sockets_evicted", s.sockets_evicted},
                      {"waited", s.waited},
                      {"hedged", s.hedged},
                      {"hedges_won", s.hedges_won},
                      {"behind_schedule", s.behind_schedule},
                      {"max_lateness_ns", s.max_lateness},
                      {"clock_steps", s.clock_steps},
                      {"reply_bytes", s.reply_bytes},
                      {"unreachable", s.unreachable},
                      {"receive_overflows", s.receive_overflows},
                      {"warnings", s.warnings},
                      {"cpu_s", seconds(usage.ru_utime) + seconds(usage.ru_stime)},
                      {"max_rss_bytes", usage.ru_maxrss * 1024}});
}

} // namespace reprise::querier
