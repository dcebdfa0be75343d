#include "querier/results/results.hh"

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/json.hh"
#include "core/wire/result_file.hh"
#include "querier/results/statistics.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <system_error>

namespace reprise::querier {

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
