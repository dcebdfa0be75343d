#include "querier/results.hh"

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/error.hh"
#include "core/result_file.hh"
#include "querier/hedges.hh"
#include "querier/slots.hh"
#include "querier/statistics.hh"

#include <fmt/format.h>

#include <exception>
#include <string>

namespace reprise::querier {

template <typename Action> void Results::guarded(const Action& action) {
    if (!failure_.empty()) {
        return;
    }
    try {
        action();
    } catch (const std::exception& error) {
        failure_ =
            fmt::format("results: {}; free space or choose another results folder", error.what());
    }
}

void Results::open(const std::string& folder, const RqHeader& header, bool answers) {
    guarded([&] {
        const std::string name = fmt::format("{}-{}", header.host, header.querier);
        hedges_path_ = fmt::format("{}/hedges-{}.csv", folder, name);
        records_.emplace(fmt::format("{}/queries-{}.rq", folder, name), header);
        if (answers) {
            answers_.emplace(
                fmt::format("{}/answers-{}.ra", folder, name),
                fmt::format(R"({{"kind": "replay", "run": {}, "host": {}, "querier": {}}})",
                            json_string(header.run), json_string(header.host), header.querier));
        }
    });
}

void Results::write(const Slot& slot, Bytes reply, Nanoseconds realtime) {
    guarded([&] {
        records_->append(slot.record);
        ++unflushed_;
        if (answers_) {
            answers_->append({.sequence = slot.record.sequence,
                              .time = reply.empty() ? 0 : realtime,
                              .source = slot.record.source,
                              .query = slot.bytes(),
                              .reply = reply});
        }
    });
}

void Results::write_hedge(const HedgeRow& row) {
    guarded([&] {
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

void Results::flush() {
    guarded([&] {
        unflushed_ = 0;
        if (records_) {
            records_->flush();
        }
        if (answers_) {
            answers_->flush();
        }
        if (hedges_.is_open() && !hedges_.flush()) {
            throw SystemError("write " + hedges_path_);
        }
    });
}

void Results::finish(const Statistics& statistics, bool clean, const std::string& because) {
    guarded([&] {
        if (hedges_.is_open() && !hedges_.flush()) {
            throw SystemError("write " + hedges_path_);
        }
        if (answers_) {
            answers_->finish();
        }
        if (records_) {
            records_->finish(statistics_json(statistics, clean, because));
        }
    });
}

} // namespace reprise::querier
