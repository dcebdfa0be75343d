#include "querier/schedule/backlog.hh"

#include "core/wire/record.hh"
#include "querier/schedule/pending_queries.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

/// About a microsecond of work.
constexpr int kRecordsAtOnce = 64;

std::uint64_t place(std::uint32_t block, size_t offset) {
    return (std::uint64_t{block} << 32U) | offset;
}

} // namespace

void Schedule::push(Nanoseconds time, std::uint64_t what) {
    const Item item{.time = time, .arrival = arrivals_++, .what = what};
    if (!sorted_.empty() && time < sorted_.back().time) {
        heap_.push(item);
    } else {
        sorted_.push_back(item);
    }
}

bool Schedule::heap_first() const {
    return !heap_.empty() && (sorted_.empty() || Later{}(sorted_.front(), heap_.top()));
}

const Schedule::Item& Schedule::front() const {
    return heap_first() ? heap_.top() : sorted_.front();
}

void Schedule::pop() {
    if (heap_first()) {
        heap_.pop();
    } else {
        sorted_.pop_front();
    }
}

Bytes Backlog::bytes(std::uint32_t block) const { return bytes_of(blocks_[block].records); }

void Backlog::begin(std::string records) {
    taking_ = take_place(blocks_, free_);
    held_.bytes += records.size();
    blocks_[taking_] = {.records = std::move(records), .waiting = 0};
    reader_ = RecordReader(bytes(taking_));
}

std::string Backlog::step() {
    Query query;
    Block& block = blocks_[taking_];
    for (int n = 0; n < kRecordsAtOnce; ++n) {
        if (!reader_.next(query)) {
            const std::uint32_t done = std::exchange(taking_, kNoBlock);
            if (block.waiting == 0) {
                used_up_.push_back(done);
            }
            return reader_.ok() ? ""
                                : fmt::format("corrupt block from the parent at offset {}",
                                              reader_.offset());
        }
        received_ += query.is_close() ? 0U : 1U;
        schedule_.push(query.due, place(taking_, reader_.offset()));
        ++block.waiting;
        ++held_.records;
        if (!limit_.covers(held_)) {
            taking_ = kNoBlock;
            return "the parent sent more queries than it was granted";
        }
    }
    return "";
}

Query Backlog::front() const {
    const std::uint64_t what = schedule_.front().what;
    RecordReader reader(bytes(static_cast<std::uint32_t>(what >> 32U)).subspan(what & 0xffffffffU));
    Query query;
    reader.next(query); // it was read before
    return query;
}

void Backlog::pop() {
    const auto block = static_cast<std::uint32_t>(schedule_.front().what >> 32U);
    schedule_.pop();
    --held_.records;
    if (--blocks_[block].waiting == 0 && block != taking_) {
        used_up_.push_back(block);
    }
}

void Backlog::sweep() {
    for (const std::uint32_t block : used_up_) {
        const std::uint64_t size = blocks_[block].records.size();
        held_.bytes -= size;
        freed_ += size;
        blocks_[block].records = {};
        free_.push_back(block);
    }
    used_up_.clear();
}

} // namespace reprise::querier
