#pragma once
// The flat query record: what a Block's bytes are made of. Flat because per-query protobuf messages
// cost several times as much to encode and decode.
//
//   u32 size of what follows | u8 version = 2 | u8 transport | u8 source family | u8 destination
//   family | u64 sequence | i64 trace_time | i64 due | u64 connection | u32 source_id | u16 source
//   port | u16 destination port | source address (4 or 16) | destination address (4 or 16) | u16
//   message size | message | tail of type-length-value fields: u8 type, u8 length, value   (unknown
//   types are skipped, so the form can grow): 1 = RTT class, 2 = idle class, each a u16
//
// A record without a message is no query: the client of the trace closed its TCP connection then.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace reprise {

inline constexpr std::uint8_t kRecordVersion = 2;

/// Appends one record to `out`. Throws Error where the message is longer than kMaxMessage.
void append_record(std::string& out, const Query& query);

enum class RecordError : std::uint8_t { kNone, kTruncated, kVersion, kCorrupt };

/// A record that a node of the tree hands on as it is; only what the node must know is read.
/// Borrows from the block.
class RecordView {
public:
    RecordView() = default;

    /// The whole record, its size included.
    [[nodiscard]] Bytes bytes() const { return bytes_; }

    // Inline: every node of the tree asks several of them about each query.

    [[nodiscard]] std::uint64_t sequence() const { return load<std::uint64_t>(kSequenceAt); }

    [[nodiscard]] Nanoseconds trace_time() const { return load<Nanoseconds>(kTimeAt); }

    [[nodiscard]] Nanoseconds due() const { return load<Nanoseconds>(kDueAt); }

    [[nodiscard]] std::uint32_t source_id() const { return load<std::uint32_t>(kSourceIdAt); }

    [[nodiscard]] IpAddress source() const;

    /// As Query::is_close().
    [[nodiscard]] bool is_close() const { return load<std::uint16_t>(message_size_at_) == 0; }

private:
    friend class RecordReader;

    static constexpr size_t kSequenceAt = 8;
    static constexpr size_t kTimeAt = 16;
    static constexpr size_t kDueAt = 24;
    static constexpr size_t kSourceIdAt = 40;

    /// The message's size stands at `message_size_at`, within `bytes`.
    RecordView(Bytes bytes, size_t message_size_at)
        : bytes_(bytes), message_size_at_(static_cast<std::uint32_t>(message_size_at)) {}

    template <typename T> [[nodiscard]] T load(size_t at) const {
        T value = 0;
        std::memcpy(&value, bytes_.data() + at, sizeof value);
        return value;
    }

    Bytes bytes_;
    std::uint32_t message_size_at_ = 0;
};

/// Walks the records of a block.
class RecordReader {
public:
    explicit RecordReader(Bytes block) : block_(block) {}

    /// Next record, without a look into its message; false at the end or at the first bad record
    /// (see error()).
    bool next(RecordView& record);

    /// The same with all of it. The query borrows from the block.
    bool next(Query& query);

    [[nodiscard]] RecordError error() const { return error_; }

    /// Offset of the record read last, for error messages.
    [[nodiscard]] size_t offset() const { return offset_; }

private:
    Bytes block_;
    size_t offset_ = 0;
    size_t next_ = 0;
    RecordError error_ = RecordError::kNone;
};

} // namespace reprise
