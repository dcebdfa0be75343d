#include "querier/results/statistics.hh"

#include "core/base/fields.hh"
#include "core/base/json.hh"
#include "core/wire/counts.hh"
#include "core/wire/result_file.hh"

#include <string>
#include <sys/resource.h>

namespace reprise::querier {

namespace {

double seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
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

std::string statistics_json(const Statistics& s, bool clean, const std::string& because) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    Json out{{"schema", 1},
             {"clean", clean},
             {"because", because},
             {"counts", fields_json<Counts>(s)},
             {"connections", fields_json<ConnectionCounts>(s)},
             {"failures", failures_json(s.failures)}};
    out.update(fields_json<QuerierCounts>(s));
    out["warnings"] = s.warnings;
    out["cpu_s"] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    out["max_rss_bytes"] = usage.ru_maxrss * 1024;
    return json_text(out);
}

} // namespace reprise::querier
