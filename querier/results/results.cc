#include "querier/results/results.hh"

#include "core/base/host.hh"
#include "core/base/json.hh"
#include "core/base/output_file.hh"
#include "core/wire/counts.hh"
#include "core/wire/result_file.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::querier {

void Statistics::count_failure(std::string_view reason) {
    auto known = std::ranges::find(failures, reason, &Failure::first);
    if (known == failures.end()) {
        known = failures.emplace(known, std::string(reason), 0);
    }
    ++known->second;
}

void Statistics::count_end(Status status) {
    constexpr std::array kFromAnswered{&Counts::answered, &Counts::timed_out, &Counts::send_failed,
                                       &Counts::connection_failed, &Counts::skipped};
    ++(this->*kFromAnswered.at(static_cast<size_t>(status) - 1));
}

std::string statistics_json(const Statistics& s, bool clean, const std::string& because) {
    const OwnUse use = own_use();
    Json failures = Json::object();
    for (const auto& [reason, count] : s.failures) {
        failures[reason] = count;
    }
    Json out{{"schema", 1},
             {"clean", clean},
             {"because", because},
             {"counts", fields_json<Counts>(s)},
             {"connections", fields_json<ConnectionCounts>(s)},
             {"failures", failures}};
    out.update(fields_json<QuerierCounts>(s));
    out["warnings"] = s.warnings;
    out["cpu_s"] = use.cpu_s;
    out["max_rss_bytes"] = use.max_rss_bytes;
    return json_text(out);
}

template <typename Action> bool Results::attempt(const Action& action) {
    try {
        action();
        return true;
    } catch (const std::exception& error) {
        if (failure_.empty()) {
            failure_ = fmt::format("results: {}; free space or choose another results folder",
                                   error.what());
        }
        return false;
    }
}

template <typename File, typename Action>
void Results::use(std::optional<File>& file, const Action& action) {
    if (file && !attempt([&] { action(*file); })) {
        file.reset();
    }
}

void Results::open(const std::string& folder, const RqHeader& header, bool answers) {
    const std::string name = fmt::format("{}-{}", header.host, header.querier);
    hedges_path_ = fmt::format("{}/hedges-{}.csv", folder, name);
    attempt([&] {
        records_.emplace(fmt::format("{}/queries-{}.rq", folder, name), header);
        if (answers) {
            answers_.emplace(fmt::format("{}/answers-{}.ra", folder, name),
                             json_text({{"kind", "replay"},
                                        {"run", header.run},
                                        {"host", header.host},
                                        {"querier", header.querier}}));
        }
    });
}

void Results::write(const PendingQuery& pending, Bytes reply, Nanoseconds realtime) {
    use(records_, [&](RqWriter& file) {
        file.append(pending.record);
        ++unflushed_;
    });
    use(answers_, [&](RaWriter& file) {
        file.append({.sequence = pending.record.sequence,
                     .time = reply.empty() ? 0 : realtime,
                     .source = pending.record.source,
                     .query = pending.bytes(),
                     .reply = reply});
    });
}

void Results::write_hedge(const HedgeRow& row) {
    if (!hedges_path_.empty()) { // the first row, whatever became of the other files
        attempt([&] {
            hedges_.emplace(std::exchange(hedges_path_, {}), AppendFile::Existing::kReplace);
        });
        use(hedges_, [](AppendFile& file) {
            file.append("seq,peer,sent_ns,peer_sent_ns,received_ns,peer_received_ns,peer_won\n");
        });
    }
    use(hedges_, [&](AppendFile& file) {
        file.append(fmt::format("{},{},{},{},{},{},{}\n", row.sequence, row.peer, row.sent[0],
                                row.sent[1], row.received[0], row.received[1], row.won ? 1 : 0));
    });
}

void Results::flush(std::uint64_t expected) {
    if (failure_.empty()) { // without more room the run must stop, and uses what is held
        attempt([&] {
            if (records_) {
                records_->reserve(expected);
            }
            if (answers_) {
                answers_->reserve(expected);
            }
        });
    }
    unflushed_ = 0;
    const auto flush = [](auto& file) { file.flush(); };
    use(records_, flush);
    use(answers_, flush);
    use(hedges_, flush);
}

void Results::finish(const Statistics& statistics, bool clean, const std::string& because) {
    use(answers_, [](RaWriter& file) { file.finish(); });
    use(hedges_, [](AppendFile& file) { file.close(); });
    const bool all = clean && failure_.empty();
    use(records_, [&](RqWriter& file) {
        file.finish(statistics_json(statistics, all, clean ? failure_ : because));
    });
}

} // namespace reprise::querier
