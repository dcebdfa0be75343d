#pragma once
// The flat query record: what a Block's bytes are made of. Flat because per-query protobuf messages
// cost several times as much to encode and decode.
//
//   RecordHead | source address (4 or 16) | destination address (4 or 16) | u16 message size |
//   message | tail of type-length-value fields: u8 type, u8 length, value   (unknown types are
//   skipped, so the form can grow): 1 = RTT class, 2 = idle class, each a u16
//
// A record without a message is no query: the client of the trace closed its TCP connection then.

#include "core/wire/query.hh" // IWYU pragma: export

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace reprise {

inline constexpr std::uint8_t kRecordVersion = 2;

/// As it lies in a block, little-endian and at any address; `size` is that of what follows it. Read
/// in place: members of a copy made by memcpy() would be read from the stack, which waits for it.
struct [[gnu::packed, gnu::may_alias]] RecordHead {
    std::uint32_t size;
    std::uint8_t version;
    std::uint8_t transport;
    std::uint8_t source_family;
    std::uint8_t destination_family;
    std::uint64_t sequence;
    Nanoseconds trace_time;
    Nanoseconds due;
    std::uint64_t connection;
    std::uint32_t source_id;
    std::uint16_t source_port;
    std::uint16_t destination_port;
};

static_assert(sizeof(RecordHead) == 48 && std::has_unique_object_representations_v<RecordHead>);

/// Appends one record to `out`. Throws Error where the message is longer than kMaxMessage.
void append_record(std::string& out, const Query& query);

/// A record that a node of the tree hands on as it is; only what the node must know is read.
/// Borrows from the block.
class RecordView {
public:
    RecordView() = default;

    /// The whole record, its size included.
    [[nodiscard]] Bytes bytes() const { return bytes_; }

    // Inline: every node of the tree asks several of them about each query.

    [[nodiscard]] std::uint64_t sequence() const { return head().sequence; }

    [[nodiscard]] Nanoseconds trace_time() const { return head().trace_time; }

    [[nodiscard]] Nanoseconds due() const { return head().due; }

    [[nodiscard]] std::uint32_t source_id() const { return head().source_id; }

    [[nodiscard]] IpAddress source() const;

    /// As Query::is_close().
    [[nodiscard]] bool is_close() const {
        return bytes_[message_size_at_] == 0 && bytes_[message_size_at_ + 1] == 0;
    }

private:
    friend class RecordReader;

    /// The message's size stands at `message_size_at`, within `bytes`.
    RecordView(Bytes bytes, size_t message_size_at)
        : bytes_(bytes), message_size_at_(static_cast<std::uint32_t>(message_size_at)) {}

    [[nodiscard]] const RecordHead& head() const {
        return *reinterpret_cast<const RecordHead*>(bytes_.data());
    }

    Bytes bytes_;
    std::uint32_t message_size_at_ = 0;
};

/// Walks the records of a block.
class RecordReader {
public:
    explicit RecordReader(Bytes block) : block_(block) {}

    /// Next record, without a look into its message; false at the end or at the first bad record
    /// (see ok()).
    bool next(RecordView& record);

    /// The same with all of it. The query borrows from the block.
    bool next(Query& query);

    [[nodiscard]] bool ok() const { return ok_; }

    /// Offset of the record read last, for error messages.
    [[nodiscard]] size_t offset() const { return offset_; }

private:
    Bytes block_;
    size_t offset_ = 0;
    size_t next_ = 0;
    bool ok_ = true;
};

/// What a child of the tree lets its parent have out: records, and their bytes. Ordinary queries
/// are bounded by their number; the bytes bound the memory where messages are large (to 64 KiB).
///
/// A record's bytes are those of the whole record (RecordView::bytes()). Every node hands records
/// on as they are, so a parent that counts the records it gives and a querier that counts the
/// blocks it has used up come to the same sum.
struct Credit {
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const Credit&, const Credit&) = default;

    Credit& operator+=(const Credit& more) {
        records += more.records;
        bytes += more.bytes;
        return *this;
    }

    /// Never below nothing.
    Credit& operator-=(const Credit& less) {
        records -= std::min(records, less.records);
        bytes -= std::min(bytes, less.bytes);
        return *this;
    }

    [[nodiscard]] bool covers(const Credit& other) const {
        return records >= other.records && bytes >= other.bytes;
    }

    [[nodiscard]] bool none() const { return records == 0 && bytes == 0; }
};

inline Credit operator+(Credit a, const Credit& b) { return a += b; }

/// What a record of so many bytes takes.
inline Credit cost_of(size_t record_bytes) { return {.records = 1, .bytes = record_bytes}; }

/// A querier's: never the narrower bound where messages are below 1 KiB.
inline constexpr Credit kQuerierCredit{.records = 131072, .bytes = 160UL << 20U};
/// A host's bytes, however many queriers it has: what they have no credit for waits in one process.
inline constexpr std::uint64_t kHostBytes = 256UL << 20U;
/// The fewest that a child may grant, for a block goes whole: more than any block has, and what
/// may be on its way back.
inline constexpr std::uint64_t kLeastBytes = 1UL << 20U;

} // namespace reprise
