#include "querier/connection/connection_queue.hh"

#include "core/wire/result_file.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstdint>
#include <vector>

namespace reprise::querier {

void ConnectionQueue::enqueue(PendingQueries& queries, std::uint32_t pending) {
    queries[pending].flying = false;
    waiting_.push_back(queries, pending);
}

void ConnectionQueue::started(PendingQueries& queries, std::uint32_t pending) {
    waiting_.remove(queries, pending);
    flying_.push_back(queries, pending);
    queries[pending].flying = true;
}

void ConnectionQueue::start_all(PendingQueries& queries) {
    while (!waiting_.empty()) {
        started(queries, waiting_.front());
    }
}

std::vector<std::uint32_t> ConnectionQueue::take_back(PendingQueries& queries) {
    std::vector<std::uint32_t> written;
    std::vector<std::uint32_t> order;
    for (; !flying_.empty(); flying_.remove(queries, flying_.front())) {
        written.push_back(flying_.front());
        queries[flying_.front()].flying = false;
    }
    order = written;
    for (; !waiting_.empty(); waiting_.remove(queries, waiting_.front())) {
        order.push_back(waiting_.front());
    }
    for (const std::uint32_t pending : order) {
        waiting_.push_back(queries, pending);
    }
    return written;
}

void ConnectionQueue::remove(PendingQueries& queries, std::uint32_t pending) {
    (queries[pending].flying ? flying_ : waiting_).remove(queries, pending);
}

void ConnectionQueue::lose_written(PendingQueries& queries, std::uint32_t index, Loss& loss) {
    PendingQuery& pending = queries[index];
    if (pending.record.retries > 0) {
        loss.failed.push_back(index);
        return;
    }
    ++pending.record.retries;
    pending.record.marks |= kMarkRetried;
    loss.retry.push_back(index);
}

ConnectionQueue::Loss ConnectionQueue::lose(PendingQueries& queries, bool established) {
    Loss loss;
    while (!flying_.empty()) {
        const std::uint32_t pending = flying_.front();
        flying_.remove(queries, pending);
        if (established) {
            lose_written(queries, pending, loss);
        } else {
            loss.failed.push_back(pending); // early data
        }
    }
    while (!waiting_.empty()) {
        const std::uint32_t pending = waiting_.front();
        waiting_.remove(queries, pending);
        (established ? loss.retry : loss.failed).push_back(pending);
    }
    return loss;
}

} // namespace reprise::querier
