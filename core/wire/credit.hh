#pragma once
// What a child of the tree lets its parent have out: records, and their bytes. Ordinary queries are
// bounded by their number; the bytes bound the memory where messages are large (up to 64 KiB).
//
// A record's bytes are those of the whole record (RecordView::bytes()). Every node hands records on
// as they are, so a parent that counts the records it gives and a querier that counts the blocks it
// has used up come to the same sum.

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise {

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
