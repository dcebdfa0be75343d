#pragma once
// A run of one file's packets or messages on their way to the merge: decoded as far as that goes
// without knowing other packets, with memory of their own.

#include "core/base/address.hh"
#include "core/base/arena.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/reassembly/options.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace reprise::trace {

/// What is known of a file once it is read.
struct FileEnd {
    bool opened = false;     ///< false: `trouble` says why not, and names the file
    std::string trouble;     ///< why reading ended before its end, one line; empty where it did not
    std::string description; ///< e.g. "pcapng, gzip"
};

class Chunk {
public:
    static constexpr size_t kEntries = 4096; ///< of a full chunk
    static constexpr size_t kBytes = 1UL << 20U;

    struct Entry {
        /// Latest time of the file's entries up to here: what files are merged by.
        Nanoseconds key = 0;
        /// Of a packet only the time, the source's address and, as message, its bytes are set.
        Query query;
        bool packet = false; ///< a packet that only the Assembler understands
        LinkType link = LinkType::kEthernet;
        std::uint32_t wire_length = 0;

        /// A query, or a packet that may hold one.
        [[nodiscard]] bool may_ask() const { return packet || !query.is_response(); }
    };

    std::vector<Entry> entries;
    Tally tally;
    Counters counters;           ///< of a file that is no capture, at its end
    std::uint64_t packets = 0;   ///< or rows, or records
    std::uint64_t responses = 0; ///< over UDP, left out
    Nanoseconds key = std::numeric_limits<Nanoseconds>::min(); ///< at the chunk's end
    double share_read = 0;
    bool last = false; ///< the file's end
    FileEnd end;       ///< with `last`

    /// `most`: entries that it takes.
    explicit Chunk(size_t most = kEntries) : most_(most) { entries.reserve(most); }

    [[nodiscard]] bool full() const { return entries.size() >= most_ || bytes_ >= kBytes; }

    /// Memory it takes, roughly.
    [[nodiscard]] size_t memory() const { return bytes_ + entries.capacity() * sizeof(Entry); }

    /// A copy that lives as long as the chunk.
    Bytes keep(Bytes bytes) {
        bytes_ += bytes.size();
        return arena_.copy(bytes);
    }

    /// Empty again, from `at` on; a block of memory is kept for the next use.
    void clear(Nanoseconds at) {
        entries.clear();
        arena_.clear();
        bytes_ = 0;
        tally = {};
        counters.clear();
        packets = responses = 0;
        key = at;
        last = false;
    }

private:
    static constexpr size_t kBlock = 256UL << 10U;

    size_t most_;
    Arena arena_{kBlock};
    size_t bytes_ = 0;
};

/// What is yielded of responses: nothing but their number (those over UDP, which costs least),
/// their headers as bytes, or all of their bytes.
enum class Responses : std::uint8_t { kNone, kHeaders, kWhole };

struct ChunkOptions {
    /// Most of a chunk. One with fewer than kEntries is used again as soon as nobody holds it, so
    /// only one thread may read, and take what was read.
    size_t entries = Chunk::kEntries;
    /// End a chunk that holds a query where its source may wait for more.
    bool prompt = false;
    Responses responses = Responses::kNone;
    /// Called with the source of each packet or query that is read, if set.
    std::function<void(const IpAddress&)> expect{};
};

} // namespace reprise::trace
