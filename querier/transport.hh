#pragma once
// What the transports and the replay owe each other.

#include "core/address.hh"
#include "core/clock.hh"
#include "core/result_file.hh"

#include <cstdint>
#include <optional>
#include <span>

namespace reprise::querier {

/// What became of handing a query to a transport.
enum class SendResult : std::uint8_t {
    kDone,    ///< it is in flight
    kBusy,    ///< the kernel's buffers are full: again in a moment
    kNoRoom,  ///< no descriptor: again when an idle socket was closed
    kFailed,  ///< it will never be sent
    kOversize ///< larger than the transport can carry
};

/// The server, by family.
struct Servers {
    std::optional<Endpoint> v4;
    std::optional<Endpoint> v6;

    [[nodiscard]] const std::optional<Endpoint>& of(std::uint8_t family) const {
        return family == 4 ? v4 : v6;
    }
};

/// Called by transports from within their own calls.
class TransportEvents {
public:
    TransportEvents() = default;
    TransportEvents(const TransportEvents&) = delete;
    TransportEvents& operator=(const TransportEvents&) = delete;
    virtual ~TransportEvents() = default;

    /// A DNS message came to `owner` at `received` (CLOCK_MONOTONIC). The bytes may be changed and
    /// are lent for the call.
    virtual void on_reply(std::uint32_t owner, std::span<std::uint8_t> reply,
                          Nanoseconds received) = 0;

    /// TCP: the query was handed to the kernel; its owner and wire_id are final.
    virtual void on_written(std::uint32_t slot) = 0;

    /// TCP: the query leaves its connection without an answer and will not be tried again.
    virtual void on_failed(std::uint32_t slot, Status status) = 0;
};

} // namespace reprise::querier
