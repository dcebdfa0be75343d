#pragma once
// Blocks as bytes on the wire, without protobuf's copies: they are nearly all that a tree carries.
// Protobuf reads what is written, and is left what only it can read (view_block() yields nothing).

#include "core/wire/frame.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise::tree {

/// Bytes ready to be written to a link, and what the records in them cost.
struct Outgoing {
    std::string bytes;
    Credit cost = {};
};

/// A block being filled.
class BlockBuilder {
public:
    void append(Bytes record);

    [[nodiscard]] std::uint32_t count() const { return count_; }

    [[nodiscard]] bool full() const {
        return count_ >= kBlockRecords || bytes_.size() >= kBlockBytes;
    }

    /// The block with its size in front; the builder is empty again.
    Outgoing take();

    void clear();

private:
    std::string bytes_; ///< room for the head, then the records
    std::uint32_t count_ = 0;
    size_t usual_ = 0; ///< size of the block before, to reserve as much
};

/// The records of a block within a frame (its size not included). Nothing where the frame is no
/// block, or one in another spelling.
std::optional<Bytes> view_block(Bytes frame);

} // namespace reprise::tree
