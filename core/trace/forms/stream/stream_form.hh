#pragma once
// The stream form, version 1 (docs/formats.md): the records of the replay tree (record.hh) in
// frames with checksums, made for programs. Little-endian.
//
//   header  8 bytes "RPSTREAM" | u32 version = 1 | u32 0
//   frame   u32 size | u64 XXH64 of the payload | payload: a serialized wire::Block of 1 to 256
//   records end     u32 0    | u64 records in all frames
//
// A stream without its end was cut. It is read frame by frame, as they come; what is broken is
// named by its offset in the (decompressed) stream.

#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "core/wire/replay.pb.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::trace {

inline constexpr std::string_view kStreamMagic = "RPSTREAM";
inline constexpr std::uint32_t kStreamVersion = 1;
inline constexpr size_t kStreamHeader = 16;
inline constexpr size_t kFrameHeader = 12;
inline constexpr std::uint32_t kMaxStreamFrame = 32U << 20U;

/// A frame ends at 256 records and where a batch ends.
class StreamEncoder final : public QueryEncoder {
public:
    void begin(std::string& out) override;

    /// The query's sequence goes into the record as it is.
    void encode(const Query& query, std::string& out) override;

    void flush(std::string& out) override;

    void finish(std::string& out) override;

private:
    wire::Block block_;
    std::uint64_t records_ = 0; ///< in frames that are out
};

} // namespace reprise::trace
