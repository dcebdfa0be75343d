#include "querier/outbox.hh"

#include "core/base/clock.hh"
#include "core/wire/credit.hh"
#include "core/wire/query.hh"
#include "core/wire/result_file.hh"
#include "querier/network/replay_options.hh"
#include "querier/results/results.hh"
#include "querier/schedule/pending_queries.hh"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reprise::querier {

Outbox::Outbox(const ReplayOptions& options, PendingQueries& queries, Statistics& statistics)
    : options_(options), queries_(queries), statistics_(statistics), backlog_(options.credit),
      keep_messages_(options.answers || options.hedge_after > 0 || options.tcp_fallback) {
    if (options.dependent) {
        dependents_.emplace(queries);
    }
}

void Outbox::refuse(std::uint32_t pending) {
    queries_.keep(pending);
    refused_.push_back(pending);
}

bool Outbox::flushed() {
    const bool refused = !refused_.empty();
    held_.insert(held_.begin(), refused_.begin(), refused_.end());
    refused_.clear();
    backlog_.sweep();
    return refused;
}

void Outbox::end_of(std::uint32_t source) {
    const std::uint32_t next = dependents_ ? dependents_->end(source) : kNone;
    if (next != kNone) {
        held_.push_back(next);
        ++departed_;
    }
}

std::uint32_t Outbox::take_held() {
    const std::uint32_t pending = held();
    if (pending != kNone) {
        held_.pop_front();
        return pending;
    }
    return dependents_ ? dependents_->take_any() : kNone;
}

bool Outbox::park(const Query& query) {
    if (!dependents_ || !dependents_->busy(query.source_id)) {
        if (dependents_) {
            dependents_->start(query.source_id);
        }
        return false;
    }
    const std::uint32_t index = pending_front(query);
    queries_.keep(index);
    queries_[index].waited = true;
    queries_[index].record.marks |= kMarkWaited;
    ++statistics_.waited;
    dependents_->park(index);
    backlog_.pop();
    return true;
}

std::uint32_t Outbox::pending_front(const Query& query) {
    const std::uint32_t index = queries_.take(query);
    queries_[index].record.due = options_.fast || !start_ ? 0 : due();
    if (keep_messages_) {
        queries_.keep(index);
    }
    return index;
}

std::uint32_t Outbox::take(const Query& query) {
    const std::uint32_t index = pending_front(query);
    drop();
    return index;
}

void Outbox::drop() {
    backlog_.pop();
    ++departed_;
}

Nanoseconds Outbox::lag(Nanoseconds now) const {
    return !start_ || options_.fast || backlog_.empty() ? 0 : std::max<Nanoseconds>(now - due(), 0);
}

bool Outbox::quiet(Nanoseconds now, Nanoseconds work) const {
    return !start_ || options_.fast || backlog_.empty() || due() - now > work;
}

Credit Outbox::take_departed() {
    return {.records = std::exchange(departed_, 0), .bytes = backlog_.take_freed()};
}

} // namespace reprise::querier
