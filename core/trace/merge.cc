#include "core/trace/merge.hh"

#include "core/dns/message.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::trace {

Merge::Merge(const std::vector<File>& files, size_t spaces, const ReaderOptions& options,
             Responses responses)
    : spaces_(spaces), assembler_(options), responses_(responses) {
    for (const File& file : files) {
        heads_.emplace(file.first, files_.size());
        files_.push_back({.space = file.space, .chunk = nullptr, .at = 0});
    }
}

/// Numbers of different spaces stay apart; those of a single space stay as they are.
std::uint64_t Merge::number(std::uint64_t connection, size_t space) const {
    return connection == 0 ? 0 : (connection - 1) * spaces_ + space + 1;
}

/// The file with the earliest head becomes the current one; false where its chunk is missing, or no
/// file is left.
bool Merge::choose() {
    if (heads_.empty() || !files_[heads_.top().second].chunk) {
        return false;
    }
    current_ = heads_.top().second;
    heads_.pop();
    return true;
}

/// The current file's chunk is used up: its next one is needed once the merge comes to its time.
void Merge::leave_chunk() {
    const auto chunk = std::exchange(files_[current_].chunk, nullptr);
    if (!chunk->last) {
        heads_.emplace(chunk->key, current_);
    }
    current_ = kNone;
}

void Merge::give(std::shared_ptr<const Chunk> chunk) {
    const size_t file = wanted();
    heads_.pop();
    tally_.add(chunk->tally);
    add(counters_, chunk->counters);
    if (!chunk->entries.empty()) {
        heads_.emplace(chunk->entries.front().key, file);
        files_[file].chunk = std::move(chunk);
        files_[file].at = 0;
    } else if (!chunk->last) {
        heads_.emplace(chunk->key, file);
    }
}

/// Adds queries of the current file, until the batch is full, another file comes first, the
/// assembler has a packet to work on, or the chunk is used up.
void Merge::advance(Batch& batch) {
    State& file = files_[current_];
    const std::vector<Chunk::Entry>& entries = file.chunk->entries;
    for (; file.at < entries.size(); ++file.at) {
        const Chunk::Entry& entry = entries[file.at];
        if (!heads_.empty() && heads_.top() < Head{entry.key, current_}) {
            heads_.emplace(entry.key, current_);
            current_ = kNone;
            return;
        }
        if (entry.packet) {
            ++file.at;
            assembler_.feed({.link = entry.link,
                             .time = entry.query.time,
                             .bytes = entry.query.message,
                             .wire_length = entry.wire_length});
            return;
        }
        if (batch.full()) {
            return;
        }
        batch.add(entry.query, file.chunk);
        std::uint64_t& connection = batch.queries.back().connection;
        connection = number(connection, file.space);
    }
    leave_chunk();
}

/// False where no message is assembled. Its bytes are copied, as the assembler uses them again.
bool Merge::pop_assembled(Batch& batch) {
    Query query;
    if (!assembler_.pop(query)) {
        return false;
    }
    if (query.is_response() && responses_ == Responses::kNone) {
        ++left_out_;
        return true;
    }
    const bool header = query.is_response() && responses_ == Responses::kHeaders;
    query.message = batch.copy(header ? query.message.first(kDnsHeaderSize) : query.message);
    query.connection = number(query.connection, 0);
    batch.add(query);
    return true;
}

Merge::Step Merge::next(Batch& batch) {
    while (!batch.full()) {
        if (pop_assembled(batch)) {
            continue;
        }
        if (current_ != kNone) {
            advance(batch);
        } else if (!choose()) {
            if (!heads_.empty()) {
                return Step::kStarved;
            }
            if (std::exchange(finished_, true)) {
                return Step::kEnd;
            }
            assembler_.finish();
        }
    }
    return Step::kFull;
}

Counters Merge::counters() const {
    Tally tally = tally_;
    tally.add(assembler_.tally());
    Counters all = tally.named();
    add(all, counters_);
    return all;
}

} // namespace reprise::trace
