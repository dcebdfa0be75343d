#include "querier/results/statistics.hh"

#include "core/wire/replay.pb.h"
#include "core/wire/result_file.hh"
#include "querier/results/failures.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <sys/resource.h>
#include <vector>

namespace reprise::querier {
namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::string counts_json(const Statistics& s) {
    return fmt::format(
        R"({{"received": {}, "sent": {}, "answered": {}, "timed_out": {}, "send_failed": {}, )"
        R"("connection_failed": {}, "skipped": {}, "late": {}, "duplicate_answers": {}, )"
        R"("unmatched": {}, "malformed": {}, "retried": {}, "sent_late": {}, "send_unsure": {}}})",
        s.received, s.sent, s.answered, s.timed_out, s.send_failed, s.connection_failed, s.skipped,
        s.late, s.duplicate_answers, s.unmatched, s.malformed, s.retried, s.sent_late,
        s.send_unsure);
}

std::string connections_json(const Statistics& s) {
    return fmt::format(R"({{"opened": {}, "reused_queries": {}, "peak_open": {}, )"
                       R"("closed_by_server": {}, "closed_idle": {}, "closed_used_up": {}, )"
                       R"("closed_by_trace": {}, "evicted": {}, "half_open": {}, )"
                       R"("bad_streams": {}, "failed": {}, "resumed": {}, "early_data": {}, )"
                       R"("early_data_rejected": {}}})",
                       s.connections_opened, s.reused_queries, s.peak_open, s.closed_by_server,
                       s.closed_idle, s.closed_used_up, s.closed_by_trace, s.connections_evicted,
                       s.half_open, s.bad_streams, s.connections_failed, s.resumed, s.early_data,
                       s.early_data_rejected);
}

std::string failures_json(const Failures& failures) {
    std::string out;
    for (const auto& [reason, count] : failures.counts()) {
        out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", json_string(reason), count);
    }
    if (failures.other() > 0) {
        out += fmt::format(R"(, "other": {})", failures.other());
    }
    return fmt::format("{{{}}}", out);
}

std::string warnings_json(const std::vector<std::string>& warnings) {
    std::vector<std::string> quoted;
    quoted.reserve(warnings.size());
    for (const std::string& warning : warnings) {
        quoted.push_back(json_string(warning));
    }
    return fmt::format("[{}]", fmt::join(quoted, ", "));
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
    return fmt::format(
        R"({{"schema": 1, "clean": {}, "because": {}, "counts": {}, "connections": {}, )"
        R"("failures": {}, "tcp_fallbacks": {}, )"
        R"("sockets_evicted": {}, "waited": {}, "hedged": {}, "hedges_won": {}, "behind_schedule": {}, "max_lateness_ns": {}, )"
        R"("clock_steps": {}, "reply_bytes": {}, "unreachable": {}, "receive_overflows": {}, )"
        R"("warnings": {}, "cpu_s": {:.6f}, "max_rss_bytes": {}}})",
        clean, json_string(because), counts_json(s), connections_json(s), failures_json(s.failures),
        s.tcp_fallbacks, s.sockets_evicted, s.waited, s.hedged, s.hedges_won, s.behind_schedule,
        s.max_lateness, s.clock_steps, s.reply_bytes, s.unreachable, s.receive_overflows,
        warnings_json(s.warnings), seconds(usage.ru_utime) + seconds(usage.ru_stime),
        usage.ru_maxrss * 1024);
}

} // namespace reprise::querier
