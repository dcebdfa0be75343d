#pragma once
// The stream form, version 1 (docs/formats.md): the records of the replay tree (record.hh) in
// frames with checksums, made for programs. Little-endian.
//
//   header  8 bytes "RPSTREAM" | u32 version = 1 | u32 0
//   frame   u32 size | u64 XXH64 of the payload | payload: a serialized wire::Block of 1 to 256
//   records end     u32 0    | u64 records in all frames
//
// A stream without its end was cut.

#include "core/base/bytes.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"
#include "core/wire/replay.pb.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace reprise::trace {

inline constexpr std::string_view kStreamMagic = "RPSTREAM";
inline constexpr std::uint32_t kStreamVersion = 1;
inline constexpr size_t kStreamHeader = 16;
inline constexpr size_t kFrameHeader = 12;
inline constexpr std::uint32_t kMaxStreamFrame = 32U << 20U;

/// Makes the bytes of a stream. Frames are appended to `out` when they are full or flush() asks.
class StreamBuilder {
public:
    static void begin(std::string& out);

    /// The query's sequence goes into the record as it is. The message must have 0 (a close) or 12
    /// to 65,535 bytes.
    void add(const Query& query, std::string& out);

    /// The records added so far as a frame, if there are any.
    void flush(std::string& out);

    /// The end, behind what flush() makes.
    void finish(std::string& out);

private:
    wire::Block block_;
    std::uint64_t records_ = 0; ///< in frames that are out
};

// Reads traces in the stream form (stream_form.hh) frame by frame, as they come. trouble() names
// what is broken by its offset in the (decompressed) stream.

bool looks_like_stream(Bytes head);

std::unique_ptr<MessageSource> open_stream(std::unique_ptr<ByteStream> stream,
                                           const std::string& path, const ReaderOptions& options);

/// Queries as the stream form (stream_form.hh). A frame ends at 256 records and where a
/// batch ends (QueryEncoder::flush()).
std::unique_ptr<QueryEncoder> make_stream_encoder();

} // namespace reprise::trace
