#pragma once
// Framing of the replay tree: u32 little-endian size, then one wire::Frame. Sizes are capped before
// anything is allocated.

#include "core/wire/record.hh"   // IWYU pragma: export
#include "core/wire/replay.pb.h" // IWYU pragma: export

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// Version of replay.proto's meaning; peers of another version are refused.
inline constexpr std::uint32_t kProtocolVersion = 6;
/// Largest frame accepted, bytes.
inline constexpr std::uint32_t kMaxFrame = 4U << 20U;
/// A block is closed at so many records or bytes, whichever comes first.
inline constexpr std::uint32_t kBlockRecords = 256;
inline constexpr size_t kBlockBytes = 256U << 10U;
/// A child that hears nothing from its parent for so long stops in order.
inline constexpr Nanoseconds kParentSilence = 1800 * kMillisecond;

/// A child's message that returns credit.
wire::Frame frame_of(const Credit& credit);

/// The frame with its size in front.
std::string encode_frame(const wire::Frame& frame);

/// Cuts a byte stream into frames. Feed bytes in any portions, then call next() until it yields
/// nothing.
class FrameReader {
public:
    enum class Result : std::uint8_t { kFrame, kNeedMore, kTooLarge, kCorrupt };

    void feed(Bytes data);

    /// Parses the next whole frame into `frame`. kTooLarge and kCorrupt are final: close the link.
    Result next(wire::Frame& frame);

private:
    std::vector<std::uint8_t> buffer_;
    size_t used_ = 0; ///< bytes of buffer_ already handed out
};

/// Bytes ready to be written to a link, and what the records in them cost.
struct Outgoing {
    std::string bytes;
    Credit cost = {};
};

/// A block being filled, without protobuf's copies: blocks are nearly all that a tree carries.
/// Protobuf reads what is written, and is left what only it can read (view_block() yields nothing).
class BlockBuilder {
public:
    void append(Bytes record);

    [[nodiscard]] std::uint32_t count() const { return count_; }

    [[nodiscard]] bool full() const {
        return count_ >= kBlockRecords || bytes_.size() >= kBlockBytes;
    }

    /// The block with its size in front; the builder is empty again.
    Outgoing take();

private:
    std::string bytes_; ///< room for the head, then the records
    std::uint32_t count_ = 0;
    size_t usual_ = 0; ///< size of the block before, to reserve as much
};

/// The records of a block within a frame (its size not included). Nothing where the frame is no
/// block, or one in another spelling.
std::optional<Bytes> view_block(Bytes frame);

} // namespace reprise
