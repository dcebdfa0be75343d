#include "querier/connection/reply_reader.hh"

#include "core/base/bytes.hh"
#include "core/dns/message.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace reprise::querier {
namespace {

constexpr size_t kPrefix = 2;

/// Hands out the whole messages at the front of `data` and moves it behind them. False: a bad
/// length.
bool cut(std::span<std::uint8_t>& data, const ReplyReader::Take& take) {
    while (data.size() >= kPrefix) {
        const size_t size = load16(data.data());
        if (size < kDnsHeaderSize) {
            return false;
        }
        if (data.size() < kPrefix + size) {
            return true;
        }
        take(data.subspan(kPrefix, size));
        data = data.subspan(kPrefix + size);
    }
    return true;
}

} // namespace

bool ReplyReader::feed(std::span<std::uint8_t> data, const Take& take) {
    if (rest_.empty()) {
        const bool good = cut(data, take);
        rest_.assign(data.begin(), data.end());
        return good;
    }
    std::vector<std::uint8_t> joined = std::exchange(rest_, {});
    joined.insert(joined.end(), data.begin(), data.end());
    std::span<std::uint8_t> left(joined);
    const bool good = cut(left, take);
    rest_.assign(left.begin(), left.end());
    return good;
}

} // namespace reprise::querier
