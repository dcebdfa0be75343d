#pragma once
#include "core/dns/message.hh"

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace reprise::querier {

/// Cuts what TCP brings into DNS messages, each behind a two-byte length (RFC 1035 section 4.2.2),
/// however that is split. Holds at most one incomplete message (64 KiB) and no memory between
/// messages.
class ReplyReader {
public:
    /// Calls `take` for each message that is now whole; the bytes are lent for the call. False: a
    /// length below 12, the size of a DNS header; nothing after it can be trusted, so end the
    /// connection.
    template <typename Take> bool feed(std::span<std::uint8_t> data, const Take& take) {
        constexpr size_t kPrefix = 2;
        std::vector<std::uint8_t> joined = std::exchange(rest_, {});
        if (!joined.empty()) {
            joined.insert(joined.end(), data.begin(), data.end());
            data = joined;
        }
        while (data.size() >= kPrefix) {
            const size_t size = load16(data.data());
            if (size < kDnsHeaderSize) {
                return false;
            }
            if (data.size() < kPrefix + size) {
                break;
            }
            take(data.subspan(kPrefix, size));
            data = data.subspan(kPrefix + size);
        }
        rest_.assign(data.begin(), data.end());
        return true;
    }

private:
    std::vector<std::uint8_t> rest_;
};

} // namespace reprise::querier
