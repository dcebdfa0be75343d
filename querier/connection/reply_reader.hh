#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace reprise::querier {

/// Cuts what TCP brings into DNS messages, each behind a two-byte length (RFC 1035 section 4.2.2),
/// however that is split. Holds at most one incomplete message (64 KiB) and no memory between
/// messages.
class ReplyReader {
public:
    using Take = std::function<void(std::span<std::uint8_t>)>;

    /// Calls `take` for each message that is now whole; the bytes are lent for the call. False: a
    /// length below 12, the size of a DNS header; nothing after it can be trusted, so end the
    /// connection.
    bool feed(std::span<std::uint8_t> data, const Take& take);

private:
    std::vector<std::uint8_t> rest_;
};

} // namespace reprise::querier
