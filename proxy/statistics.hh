#pragma once
// What a proxy has counted, and the form in which it tells of it.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/histogram.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/rewrite/rewrite.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::proxy {

/// Addresses without a route and how often they were asked. Bounded: a resolver may be led to any
/// number of addresses.
class Unmapped {
public:
    /// More addresses than that share one count.
    static constexpr size_t kMost = 10'000;

    void add(const IpAddress& address);

    /// The busiest first, ties by address; at most `most`.
    [[nodiscard]] std::vector<std::pair<IpAddress, std::uint64_t>> busiest(size_t most) const;

    /// Packets to addresses that are not kept one by one.
    [[nodiscard]] std::uint64_t others() const { return others_; }

private:
    std::unordered_map<IpAddress, std::uint64_t> packets_;
    std::uint64_t others_ = 0;
};

/// Counts of packets unless said otherwise, since the start.
struct Statistics {
    std::string side;
    std::string realtime_refused;  ///< in words; empty where it was not, or not asked for
    Nanoseconds started = 0;       ///< CLOCK_MONOTONIC
    Nanoseconds counted_until = 0; ///< what the device had until then is in these counts
    std::uint64_t read = 0;
    std::uint64_t written = 0;
    std::uint64_t refused = 0;   ///< the kernel did not take them back
    std::uint64_t lost = 0;      ///< by the delay model
    std::uint64_t unlisted = 0;  ///< to addresses for which the delay model has no round trip
    std::uint64_t overflow = 0;  ///< dropped because the delay line was full
    std::uint64_t unread = 0;    ///< dropped by the host before this process came to read them
    std::uint64_t in_line = 0;   ///< still waiting in the delay line
    std::uint64_t datagrams = 0; ///< DNS over UDP, each counted once however many fragments it has
    std::uint64_t dropped = 0;   ///< of them, because they are unmapped or by the delay model
    std::uint64_t connections = 0; ///< SYNs of TCP; one that is sent again counts again
    std::uint64_t pushed = 0;      ///< TCP segments with PSH: DNS messages, unless sent again
    std::array<std::uint64_t, kVerdicts> verdicts{};
    Unmapped unmapped;
    Histogram delay_error; ///< by how much later packets left than they were due, ns

    [[nodiscard]] std::uint64_t malformed() const;
    void count(const Outcome& outcome);
};

/// The form of --stats: one JSON object, schema 1.
std::string to_json(const Statistics& statistics);

} // namespace reprise::proxy
