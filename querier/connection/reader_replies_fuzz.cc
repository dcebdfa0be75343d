// What a server sends over TCP, in portions whose size the first byte names. Cut in
// portions or whole, the messages must be the same.
#include "querier/connection/connection.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

namespace {

struct Seen {
    std::vector<size_t> sizes;
    bool good = true;
};

Seen cut(std::vector<std::uint8_t> bytes, size_t portion) {
    reprise::querier::ReplyReader reader;
    Seen seen;
    std::span<std::uint8_t> left(bytes);
    while (!left.empty() && seen.good) {
        const size_t count = std::min(portion, left.size());
        seen.good = reader.feed(left.first(count), [&](std::span<std::uint8_t> message) {
            seen.sizes.push_back(message.size());
        });
        left = left.subspan(count);
    }
    return seen;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const std::vector<std::uint8_t> bytes(data + 1, data + size);
    const Seen whole = cut(bytes, bytes.size());
    const Seen portions = cut(bytes, data[0] + 1U);
    if (whole.sizes != portions.sizes || whole.good != portions.good) {
        std::abort();
    }
    return 0;
}
