#include "core/trace/chunk_reader.hh"

#include "core/trace/chunk.hh"
#include "core/trace/opened.hh"
#include "core/trace/reader.hh"
#include "core/trace/reassembly/datagrams.hh"
#include "core/trace/reassembly/packet.hh"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::trace {
namespace {

/// Packets looked at for one chunk: most may be none of ours.
constexpr std::uint64_t kPacketsPerChunk = 16'384;

} // namespace

ChunkReader::ChunkReader(std::string path, const ReaderOptions& options)
    : path_(std::move(path)), options_(options), ports_(options.ports) {}

void ChunkReader::open() {
    tried_ = true;
    try {
        opened_ = open_trace(path_, options_);
    } catch (const std::exception& error) { // also in a thread that nobody watches
        refused_ = error.what();
    }
}

bool ChunkReader::fetch() {
    if (!tried_) {
        open();
    }
    return opened_.packets ? opened_.packets->next(packet_)
                           : opened_.messages && opened_.messages->next(message_);
}

void ChunkReader::put(Chunk& chunk) {
    ++chunk.packets;
    if (opened_.packets) {
        put_packet(chunk);
    } else {
        put_message(chunk);
    }
    chunk.key = key_;
}

void ChunkReader::put_packet(Chunk& chunk) {
    key_ = std::max(key_, packet_.time);
    Chunk::Entry& entry = chunk.entries.emplace_back();
    entry.key = key_;
    Message& message = entry.message;
    const Sorted sorted = sort_packet(packet_, ports_, chunk.tally, message);
    const bool response = sorted == Sorted::kMessage && message.response;
    if (response || sorted == Sorted::kNothing) {
        chunk.responses += response ? 1 : 0;
        chunk.entries.pop_back();
        return;
    }
    if (sorted == Sorted::kAssembler) {
        entry.packet = true;
        entry.link = packet_.link;
        entry.wire_length = packet_.wire_length;
        message.time = packet_.time;
        message.bytes = packet_.bytes;
    }
    message.bytes = chunk.keep(message.bytes);
}

void ChunkReader::put_message(Chunk& chunk) {
    key_ = std::max(key_, message_.time);
    if (message_.response) {
        ++chunk.responses;
        return;
    }
    message_.bytes = chunk.keep(message_.bytes);
    chunk.entries.push_back({.key = key_, .message = message_});
}

std::shared_ptr<Chunk> ChunkReader::read() {
    auto chunk = std::make_shared<Chunk>();
    chunk->key = key_;
    while (!chunk->full() && chunk->packets < kPacketsPerChunk) {
        if (!fetch()) {
            finish(*chunk);
            return chunk;
        }
        put(*chunk);
    }
    chunk->share_read =
        opened_.packets ? opened_.packets->share_read() : opened_.messages->share_read();
    return chunk;
}

void ChunkReader::finish(Chunk& chunk) {
    chunk.last = true;
    chunk.share_read = 1;
    if (opened_.packets) {
        chunk.end = {.opened = true,
                     .trouble = opened_.packets->trouble(),
                     .description = opened_.packets->description()};
    } else if (opened_.messages) {
        chunk.end = {.opened = true,
                     .trouble = opened_.messages->trouble(),
                     .description = opened_.messages->description()};
        chunk.counters = opened_.messages->counters();
    } else {
        chunk.end.trouble = refused_;
    }
    opened_ = {};
}

FileHead look_at(const std::string& path, const ReaderOptions& options) {
    FileHead head;
    std::error_code ignored;
    head.regular = path != "-" && std::filesystem::is_regular_file(path, ignored);
    if (!head.regular) {
        return head;
    }
    try {
        const Opened opened = open_trace(path, options);
        Packet packet;
        Message message;
        head.capture = opened.packets != nullptr;
        if (opened.packets && opened.packets->next(packet)) {
            head.first = packet.time;
        } else if (opened.messages && opened.messages->next(message)) {
            head.first = message.time;
        }
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): reading it will say so
    }
    return head;
}

} // namespace reprise::trace
