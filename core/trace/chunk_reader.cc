#include "core/trace/chunk_reader.hh"

#include "core/dns/message.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/chunk.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/wire/query.hh"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace reprise::trace {
namespace {

/// In the order in which they are asked.
constexpr std::array kForms{&kDnstapForm, &kCdnsForm, &kStreamForm,
                            &kTextForm,   &kFsdbForm, &kDnsperfForm};

bool is_text(Bytes head) {
    return !head.empty() && std::ranges::all_of(head, [](std::uint8_t byte) {
        return (byte >= 0x20 && byte < 0x7f) || byte == '\t' || byte == '\r' || byte == '\n';
    });
}

/// Enough of the beginning for Form::fits().
Bytes peek_head(ByteStream& stream) {
    constexpr size_t kMost = 1UL << 20U; // of comments before the first row
    Bytes head = stream.peek(Form::kHead);
    if (!is_text(head)) {
        return head;
    }
    for (size_t line = 0, seen = 0; seen < head.size();) {
        const std::string_view text = text_of(head);
        const std::string_view row = first_content(text.substr(line));
        if (!row.empty() && row.end() != text.end()) {
            break; // it is whole
        }
        seen = head.size();
        line = text.rfind('\n') + 1; // 0 where there is none
        head = stream.peek_line(kMost);
    }
    return head;
}

/// Packets looked at for one chunk: most may be none of ours.
constexpr std::uint64_t kPacketsPerChunk = 16'384;

// Of pipes.
constexpr size_t kAhead = 4; ///< full chunks that may wait
constexpr auto kPatience = std::chrono::milliseconds(20);
constexpr auto kIdle = std::chrono::milliseconds(100);

} // namespace

std::unique_ptr<TraceSource> open_trace(const std::string& path) {
    auto stream = std::make_unique<ByteStream>(path);
    const Bytes head = peek_head(*stream);
    const auto* const form =
        std::ranges::find_if(kForms, [&](const Form* f) { return f->fits(head); });
    return form != kForms.end() ? (*form)->open(std::move(stream), path)
                                : open_source(std::move(stream), path);
}

ChunkReader::ChunkReader(std::string path, const ReaderOptions& options, ChunkOptions chunks)
    : path_(std::move(path)), closes_(options.closes), chunks_(std::move(chunks)),
      ports_(options.ports) {}

std::string ChunkReader::open() {
    source_ = open_trace(path_);
    tried_ = true;
    return source_->description();
}

Counters ChunkReader::counters() const { return source_ ? source_->counters() : Counters{}; }

bool ChunkReader::fetch() {
    if (!tried_) {
        try {
            open();
        } catch (const std::exception& error) { // also in a thread that nobody watches
            tried_ = true;
            refused_ = error.what();
        }
    }
    return source_ && source_->next(packet_, query_);
}

void ChunkReader::put(Chunk& chunk) {
    seen_ = std::max(seen_, source_->capture() ? packet_.time : query_.time);
    if (source_->capture()) {
        put_packet(chunk);
    } else {
        put_message(chunk);
    }
    chunk.key = key_;
}

/// Gives the entry bytes that live as long as the chunk.
void ChunkReader::keep(Chunk& chunk, Chunk::Entry& entry) {
    Query& query = entry.query;
    if (chunks_.expect && entry.may_ask()) {
        chunks_.expect(query.source.address);
    }
    const bool header = !entry.may_ask() && chunks_.responses == Responses::kHeaders;
    query.message = chunk.keep(header ? query.message.first(kDnsHeaderSize) : query.message);
}

/// What is left out has no part in the order of files: `reduce` may have left it out before.
void ChunkReader::put_packet(Chunk& chunk) {
    Chunk::Entry& entry = chunk.entries.emplace_back();
    Query& query = entry.query;
    const Sorted sorted = sort_packet(packet_, ports_, chunk.tally, query);
    const bool left_out =
        sorted == Sorted::kMessage && query.is_response() && chunks_.responses == Responses::kNone;
    if (left_out || sorted == Sorted::kNothing) {
        chunk.responses += left_out ? 1 : 0;
        chunk.entries.pop_back();
        return;
    }
    entry.key = key_ = std::max(key_, packet_.time);
    if (sorted == Sorted::kAssembler) {
        entry.packet = true;
        entry.link = packet_.link;
        entry.wire_length = packet_.wire_length;
        query.time = packet_.time;
        query.message = packet_.bytes;
    }
    keep(chunk, entry);
}

void ChunkReader::put_message(Chunk& chunk) {
    if (query_.is_close() && !closes_) {
        return;
    }
    key_ = std::max(key_, query_.time);
    if (query_.is_response() && chunks_.responses == Responses::kNone) {
        ++chunk.responses;
        return;
    }
    keep(chunk, chunk.entries.emplace_back(Chunk::Entry{.key = key_, .query = query_}));
}

std::shared_ptr<Chunk> ChunkReader::empty_chunk() {
    if (chunks_.entries < Chunk::kEntries && used_.use_count() == 1) {
        used_->clear(key_);
        return used_;
    }
    auto chunk = std::make_shared<Chunk>(chunks_.entries);
    chunk->key = key_;
    if (chunks_.entries < Chunk::kEntries) {
        used_ = chunk;
    }
    return chunk;
}

std::shared_ptr<Chunk> ChunkReader::read() {
    auto chunk = empty_chunk();
    bool query = false; // or a packet that may hold one
    for (std::uint64_t i = 0; !chunk->full() && i < kPacketsPerChunk; ++i) {
        if (chunks_.prompt && query && !source_->ready()) {
            break;
        }
        if (!fetch()) {
            finish(*chunk);
            return chunk;
        }
        put(*chunk);
        query = query || (!chunk->entries.empty() && chunk->entries.back().may_ask());
    }
    count_records(*chunk);
    chunk->share_read = source_->share_read();
    return chunk;
}

/// One record may hold a query and its response.
void ChunkReader::count_records(Chunk& chunk) {
    const std::uint64_t before = std::exchange(records_, source_->packets());
    chunk.packets += records_ - before;
}

void ChunkReader::finish(Chunk& chunk) {
    chunk.last = true;
    chunk.share_read = 1;
    chunk.end = {.opened = source_ != nullptr, .trouble = refused_, .description = {}};
    if (source_) {
        chunk.end.trouble = source_->trouble();
        chunk.end.description = source_->description();
        chunk.counters = counters();
        count_records(chunk);
    }
    source_ = nullptr;
}

namespace {

/// Shared with its thread, which may outlive whoever reads.
class LiveReader final : public ChunkSource {
public:
    LiveReader(const std::string& path, const ReaderOptions& options, ChunkOptions chunks)
        : reader_(path, options, std::move(chunks)) {}

    std::shared_ptr<Chunk> read() override {
        std::unique_lock lock(mutex_);
        const auto full = [this] { return !ready_.empty(); };
        const auto some = [&] { return full() || !open_->entries.empty(); };
        if (changed_.wait_for(lock, kIdle, some) && !full()) {
            changed_.wait_for(lock, kPatience, full);
        }
        if (!full()) {
            hand_on();
        }
        auto chunk = std::move(ready_.front());
        ready_.pop_front();
        changed_.notify_all();
        return chunk;
    }

    /// Nobody reads any more.
    void abandon() {
        const std::scoped_lock lock(mutex_);
        abandoned_ = true;
        changed_.notify_all();
    }

    /// The thread.
    void run() {
        while (reader_.fetch()) {
            if (!take()) {
                return;
            }
        }
        const std::scoped_lock lock(mutex_);
        reader_.finish(*open_);
        hand_on();
    }

private:
    /// Hands on the open chunk. Needs the lock.
    void hand_on() {
        auto next = std::make_shared<Chunk>();
        next->key = open_->key;
        ready_.push_back(std::exchange(open_, std::move(next)));
        changed_.notify_all();
    }

    /// False once nobody reads any more.
    bool take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return abandoned_ || ready_.size() < kAhead; });
        const bool first = open_->entries.empty();
        reader_.put(*open_);
        open_->key = reader_.seen(); // what is left out holds up no other pipe
        if (open_->full()) {
            hand_on();
        } else if (first && !open_->entries.empty()) {
            changed_.notify_all();
        }
        return !abandoned_;
    }

    ChunkReader reader_; ///< the thread's own
    std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<Chunk> open_ = std::make_shared<Chunk>(); ///< being filled
    std::deque<std::shared_ptr<Chunk>> ready_;                ///< full, or the last
    bool abandoned_ = false;
};

} // namespace

std::shared_ptr<ChunkSource> read_live(const std::string& path, const ReaderOptions& options,
                                       ChunkOptions chunks) {
    const auto live = std::make_shared<LiveReader>(path, options, std::move(chunks));
    std::thread([live] { live->run(); }).detach();
    return {live.get(), [live](ChunkSource* /*source*/) { live->abandon(); }};
}

} // namespace reprise::trace
