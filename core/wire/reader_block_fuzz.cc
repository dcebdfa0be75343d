// Blocks as the tree reads them, without protobuf: protobuf must see the same block, and every
// record that a node would hand on lies within it.
#include "core/wire/frame.hh"
#include "core/wire/record.hh"
#include "core/wire/replay.pb.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

void demand(bool good) {
    if (!good) {
        std::abort();
    }
}

/// Of a record without a message, between IPv4 addresses or to none.
constexpr size_t kLeast = 50 + 4;

void skim(reprise::Bytes block) {
    reprise::RecordReader records(block);
    reprise::RecordView record;
    reprise::BlockBuilder builder;
    size_t sum = 0;
    while (records.next(record)) {
        sum += record.bytes().size();
        demand(record.source().size() > 0);
        builder.append(record.bytes());
        demand(!record.is_close() || record.bytes().size() >= kLeast);
    }
    demand(sum == block.size() || !records.ok());
    constexpr size_t kSize = 4; // in front of the frame
    if (builder.count() > 0 && sum == block.size()) {
        const reprise::Outgoing written = builder.take();
        const auto again = reprise::view_block(reprise::bytes_of(written.bytes).subspan(kSize));
        demand(again && std::ranges::equal(*again, block));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const auto block = reprise::view_block({data, size});
    if (!block) {
        return 0;
    }
    reprise::wire::Frame frame;
    demand(frame.ParseFromArray(data, static_cast<int>(size)) && frame.has_block());
    demand(std::ranges::equal(*block, frame.block().records(), {},
                              [](std::uint8_t byte) { return static_cast<char>(byte); }));
    skim(*block);
    return 0;
}
