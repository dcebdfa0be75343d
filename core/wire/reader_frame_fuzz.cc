// The framing between the replay tree's programs: bytes in portions whose size the first byte
// names.
#include "core/wire/frame.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    reprise::Bytes left(data, size);
    const size_t portion = left.empty() ? 1 : left[0] + 1U;
    reprise::FrameReader reader;
    reprise::wire::Frame frame;
    while (!left.empty()) {
        const size_t count = std::min(portion, left.size());
        reader.feed(left.first(count));
        left = left.subspan(count);
        auto result = reader.next(frame);
        while (result == reprise::FrameReader::Result::kFrame) {
            result = reader.next(frame);
        }
        if (result != reprise::FrameReader::Result::kNeedMore) {
            return 0; // final: a program closes the link here
        }
    }
    return 0;
}
