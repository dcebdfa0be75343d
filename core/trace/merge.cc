#include "core/trace/merge.hh"

#include "core/trace/chunk.hh"
#include "core/trace/reader.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::trace {

Merge::Merge(const std::vector<File>& files, size_t spaces, const ReaderOptions& options)
    : spaces_(spaces), assembler_(options) {
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
    for (const auto& [name, count] : chunk->counters) {
        counters_[name] += count;
    }
    if (!chunk->entries.empty()) {
        heads_.emplace(chunk->entries.front().key, file);
        files_[file].chunk = std::move(chunk);
        files_[file].at = 0;
    } else if (!chunk->last) {
        heads_.emplace(chunk->key, file);
    }
}

/// The next message of the current file into `found`; false where there is none yet.
bool Merge::advance(Found& found) {
    State& file = files_[current_];
    if (file.at == file.chunk->entries.size()) {
        leave_chunk();
        return false;
    }
    const Chunk::Entry& entry = file.chunk->entries[file.at];
    if (!heads_.empty() && heads_.top() < Head{entry.key, current_}) {
        heads_.emplace(entry.key, current_);
        current_ = kNone;
        return false;
    }
    ++file.at;
    if (entry.packet) {
        assembler_.feed({.link = entry.link,
                         .time = entry.query.time,
                         .bytes = entry.query.message,
                         .wire_length = entry.wire_length});
        return false;
    }
    found.query = entry.query;
    found.query.connection = number(entry.query.connection, file.space);
    found.memory = &file.chunk;
    return true;
}

bool Merge::pop_assembled(Found& found) {
    if (!assembler_.pop(found.query)) {
        return false;
    }
    found.query.connection = number(found.query.connection, 0);
    found.memory = nullptr;
    return true;
}

Merge::Step Merge::next(Found& found) {
    while (!pop_assembled(found)) {
        if (current_ != kNone) {
            if (advance(found)) {
                return Step::kMessage;
            }
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
    return Step::kMessage;
}

Counters Merge::counters() const {
    Tally tally = tally_;
    tally.add(assembler_.tally());
    Counters all = tally.named();
    for (const auto& [name, count] : counters_) {
        all[name] += count;
    }
    return all;
}

} // namespace reprise::trace
