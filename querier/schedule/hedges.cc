#include "querier/schedule/hedges.hh"

#include "core/wire/result_file.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace reprise::querier {

void Dependents::park(std::uint32_t pending) {
    sources_[queries_[pending].record.source].push_back(queries_, pending);
}

std::uint32_t Dependents::end(std::uint32_t source) {
    const auto at = sources_.find(source);
    if (at == sources_.end()) {
        return kNone;
    }
    const std::uint32_t next = at->second.front();
    if (next == kNone) {
        sources_.erase(at);
    } else {
        at->second.remove(queries_, next);
    }
    return next;
}

std::uint32_t Dependents::take_any() {
    while (!sources_.empty()) {
        const std::uint32_t pending = end(sources_.begin()->first);
        if (pending != kNone) {
            return pending;
        }
    }
    return kNone;
}

void Hedges::watch(std::uint32_t pending) {
    queries_[pending].watched = true;
    watched_.push_back(queries_, pending);
}

void Hedges::unwatch(std::uint32_t pending) {
    if (queries_[pending].watched) {
        queries_[pending].watched = false;
        watched_.remove(queries_, pending);
    }
}

std::uint8_t Hedges::next_peer(std::uint8_t family) {
    for (size_t n = 0; n < peers_.size(); ++n) {
        const size_t peer = turn_++ % peers_.size();
        if (peers_[peer].address.family == family) {
            return static_cast<std::uint8_t>(peer + 1);
        }
    }
    return 0;
}

std::uint32_t Hedges::split() {
    const std::uint32_t original = watched_.front();
    unwatch(original);
    const std::uint8_t peer = next_peer(queries_[original].family());
    const std::uint32_t copy = peer == 0 ? kNone : queries_.copy(original, peer);
    if (copy == kNone) {
        return kNone;
    }
    const std::uint32_t pair = take_place(pairs_, free_);
    pairs_[pair] = {};
    queries_[original].pair = queries_[copy].pair = pair;
    RqRecord& whole = pairs_[pair].record = queries_[original].record;
    whole.send = whole.send == 0 ? handed_over(original) : whole.send; // it waits for a connection
    pairs_[pair].row.sequence = whole.sequence;
    pairs_[pair].row.peer = peer;
    return copy;
}

void Hedges::cancel(std::uint32_t copy) {
    Pair& pair = pairs_[queries_[copy].pair];
    pair.canceled = true;
    --pair.open;
    queries_[copy].pair = kNone;
    queries_.give_back(copy);
}

void Hedges::complete(PendingQuery& pending, const Pair& pair, Status status) {
    pending.record.due = pair.record.due;
    pending.record.marks |= pair.record.marks;
    if (pair.canceled) {
        return;
    }
    pending.record.marks |= kMarkHedged | (pair.row.won ? kMarkHedgeWon : std::uint16_t{0});
    pending.written = pair.row.sent[0] != 0 || pair.row.sent[1] != 0;
    pending.record.send = pair.record.send;
    if (status == Status::kAnswered) {
        pending.record.latency = pending.record.receive - pending.record.send;
    }
}

std::optional<Status> Hedges::settle(std::uint32_t index, Status status,
                                     std::optional<HedgeRow>& row) {
    PendingQuery& pending = queries_[index];
    const std::uint32_t number = pending.pair;
    Pair& pair = pairs_[number];
    const size_t which = pending.peer == 0 ? 0 : 1;
    pair.row.sent[which] = pending.written ? pending.record.send : 0;
    pair.row.received[which] = status == Status::kAnswered ? pending.record.receive : 0;
    pair.status = which == 0 ? status : pair.status;
    --pair.open;
    const bool ends = !pair.decided && (status == Status::kAnswered || pair.open == 0);
    if (ends) {
        pair.decided = true;
        pair.row.won = which == 1 && status == Status::kAnswered;
        complete(pending, pair, status);
    }
    const Status whole = status == Status::kAnswered ? status : pair.status;
    if (pair.open == 0) {
        if (!pair.canceled) {
            row = pair.row;
        }
        free_.push_back(number);
    }
    return ends ? std::optional(whole) : std::nullopt;
}

} // namespace reprise::querier
