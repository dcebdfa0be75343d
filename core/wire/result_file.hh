#pragma once
// Writers of the result files .rq (records) and .ra (answers); docs/formats.md is their reference.

#include "core/base/output_file.hh"
#include "core/wire/query.hh" // IWYU pragma: export

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// How a query ended. The values stand in files: only append.
enum class Status : std::uint8_t {
    kAnswered = 1,
    kTimedOut = 2,
    kSendFailed = 3,
    kConnectionFailed = 4,
    kSkipped = 5,
};

enum class SkipReason : std::uint8_t {
    kNone = 0,
    kAborted = 1,
    kOversize = 2,
    kNoAddress = 3,
    kDuration = 4
};

/// Bits of RqRecord::marks.
inline constexpr std::uint16_t kMarkReused = 1;
inline constexpr std::uint16_t kMarkOpened = 2;
inline constexpr std::uint16_t kMarkRetried = 4;
inline constexpr std::uint16_t kMarkClockStep = 8;
inline constexpr std::uint16_t kMarkBehind = 16;
inline constexpr std::uint16_t kMarkIdRewritten = 32;
inline constexpr std::uint16_t kMarkEndedEarly = 64;
inline constexpr std::uint16_t kMarkWaited = 128;     ///< for a query before, or its handshake
inline constexpr std::uint16_t kMarkHedged = 256;     ///< also sent to a peer
inline constexpr std::uint16_t kMarkHedgeWon = 512;   ///< the peer's answer came first
inline constexpr std::uint16_t kMarkFallback = 1024;  ///< asked again over TCP
inline constexpr std::uint16_t kMarkResumed = 2048;   ///< its connection resumed a TLS session
inline constexpr std::uint16_t kMarkEarlyData = 4096; ///< traveled with the TLS handshake (0-RTT)
inline constexpr std::uint16_t kMarkUnsure = 8192;    ///< `send` may be over 50 us too early
inline constexpr std::uint16_t kMarkTrailing = 16384; ///< there are bytes after the answer
inline constexpr std::uint16_t kMarkSilent = 32768;   ///< fallback because no answer came over UDP

/// One query's end, 80 bytes as in docs/formats.md.
struct RqRecord {
    std::uint64_t sequence = 0;
    Nanoseconds trace_time = 0;
    Nanoseconds due = 0;
    Nanoseconds send = 0;
    Nanoseconds receive = 0;
    Nanoseconds latency = -1;
    Nanoseconds connect = 0;
    std::uint32_t source = 0;
    std::uint32_t connection = 0;
    std::uint32_t reply_size = 0;
    std::uint16_t rcode = 0xffff;
    std::uint16_t flags = 0;
    std::uint16_t marks = 0;
    Status status = Status::kTimedOut;
    Transport transport = Transport::kUdp;
    std::uint16_t query_size = 0;
    SkipReason reason = SkipReason::kNone;
    std::uint8_t retries = 0;
};

static_assert(sizeof(RqRecord) == 80);

/// What a .rq header says besides the fields.
struct RqHeader {
    std::string run;
    std::string host;
    std::uint32_t querier = 0;
    Nanoseconds start_mono = 0;
    Nanoseconds start_real = 0;
    Nanoseconds trace_first = 0;
};

/// A file of records with a running XXH3-64 over them; see AppendFile.
class RecordFile {
public:
    void flush() { file_.flush(); }

    /// Room for so many queries, without their replies, and the end of the file; see AppendFile.
    void reserve(std::uint64_t queries);

    /// Writes the trailing JSON and the footer, waits until all is on the disk, and closes.
    void finish(std::string_view json = "");

protected:
    /// `magic` begins those of header and footer; a `record_size` of 0 says that they differ.
    RecordFile(const std::string& path, std::string_view magic, std::size_t record_size,
               std::string_view json);

    void append(Bytes record);

private:
    std::string magic_;
    std::uint64_t room_; ///< bytes that a query takes, in general
    AppendFile file_;
    std::uint64_t count_ = 0;
    std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> digest_;
};

class RqWriter : public RecordFile {
public:
    RqWriter(const std::string& path, const RqHeader& header);

    void append(const RqRecord& record);
};

/// One query with its reply; an empty reply means there was none.
struct Answer {
    std::uint64_t sequence = 0;
    Nanoseconds time = 0; ///< realtime of the reply, 0 = none
    std::uint32_t source = 0xffffffff;
    Bytes query;
    Bytes reply;
};

class RaWriter : public RecordFile {
public:
    /// `json` describes where the answers are from, e.g. {"kind": "replay"}.
    RaWriter(const std::string& path, std::string_view json);

    void append(const Answer& answer);

private:
    std::vector<std::uint8_t> scratch_;
};

} // namespace reprise
