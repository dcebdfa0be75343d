#include "querier/results/results.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/json.hh"
#include "core/wire/counts.hh"
#include "core/wire/result_file.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <sys/resource.h>
#include <system_error>

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

template <typename Action> void Results::guarded(bool& broken, const Action& action) {
    if (broken) {
        return;
    }
    try {
        action();
    } catch (const std::exception& error) {
        broken = true;
        note(error.what());
    }
}

void Results::note(const char* what) {
    if (failure_.empty()) {
        failure_ = fmt::format("results: {}; free space or choose another results folder", what);
    }
}

void Results::open(const std::string& folder, const RqHeader& header, bool answers) {
    const std::string name = fmt::format("{}-{}", header.host, header.querier);
    hedges_path_ = fmt::format("{}/hedges-{}.csv", folder, name);
    guarded(records_broken_,
            [&] { records_.emplace(fmt::format("{}/queries-{}.rq", folder, name), header); });
    if (!answers || records_broken_) {
        return;
    }
    guarded(answers_broken_, [&] {
        answers_.emplace(fmt::format("{}/answers-{}.ra", folder, name),
                         json_text({{"kind", "replay"},
                                    {"run", header.run},
                                    {"host", header.host},
                                    {"querier", header.querier}}));
    });
}

void Results::write(const PendingQuery& pending, Bytes reply, Nanoseconds realtime) {
    guarded(records_broken_, [&] {
        records_->append(pending.record);
        ++unflushed_;
    });
    if (!answers_) {
        return;
    }
    guarded(answers_broken_, [&] {
        answers_->append({.sequence = pending.record.sequence,
                          .time = reply.empty() ? 0 : realtime,
                          .source = pending.record.source,
                          .query = pending.bytes(),
                          .reply = reply});
    });
}

void Results::write_hedge(const HedgeRow& row) {
    guarded(hedges_broken_, [&] {
        if (!hedges_.is_open()) {
            hedges_.open(hedges_path_);
            hedges_ << "seq,peer,sent_ns,peer_sent_ns,received_ns,peer_received_ns,peer_won\n";
        }
        hedges_ << fmt::format("{},{},{},{},{},{},{}\n", row.sequence, row.peer, row.sent[0],
                               row.sent[1], row.received[0], row.received[1], row.won ? 1 : 0);
        if (!hedges_) {
            throw SystemError("write " + hedges_path_);
        }
    });
}

/// Without more room the run must stop; what is held is for the records that follow.
void Results::reserve(std::uint64_t queries) {
    try {
        if (records_ && !records_broken_) {
            records_->reserve(queries);
        }
        if (answers_ && !answers_broken_) {
            answers_->reserve(queries);
        }
    } catch (const std::system_error& error) {
        note(error.what());
    }
}

void Results::flush(std::uint64_t expected) {
    if (failure_.empty()) {
        reserve(expected);
    }
    unflushed_ = 0;
    if (records_) {
        guarded(records_broken_, [&] { records_->flush(); });
    }
    if (answers_) {
        guarded(answers_broken_, [&] { answers_->flush(); });
    }
    guarded(hedges_broken_, [&] {
        if (hedges_.is_open() && !hedges_.flush()) {
            throw SystemError("write " + hedges_path_);
        }
    });
}

void Results::finish(const Statistics& statistics, bool clean, const std::string& because) {
    if (answers_) {
        guarded(answers_broken_, [&] { answers_->finish(); });
    }
    guarded(hedges_broken_, [&] { close_hedges(); });
    if (records_) {
        const bool all = clean && failure_.empty();
        guarded(records_broken_, [&] {
            records_->finish(statistics_json(statistics, all, clean ? failure_ : because));
        });
    }
}

void Results::close_hedges() {
    if (!hedges_.is_open()) {
        return;
    }
    hedges_.close();
    if (!hedges_) {
        throw SystemError("write " + hedges_path_);
    }
}

} // namespace reprise::querier
