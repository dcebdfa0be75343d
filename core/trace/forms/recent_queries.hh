#pragma once
// What the readers of servers' logs (dnstap, C-DNS) share: addresses where a log has none, and
// queries that a log may tell twice.

#include "core/base/address.hh"
#include "core/base/bytes.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace reprise::trace {

/// 0.0.0.0 or ::, for a source that is not told.
IpAddress nobody(bool ipv6);

/// 192.0.2.53 or 2001:db8::53 (RFC 5737, RFC 3849), for a server that is not told.
IpAddress example_server(bool ipv6);

/// The last 65,536 queries by a hash of ends and bytes, each as often as it was added. About 5 MiB
/// at most.
class RecentQueries {
public:
    void add(const Endpoint& source, const Endpoint& destination, Bytes message);

    /// Whether it was added and not taken since.
    bool take(const Endpoint& source, const Endpoint& destination, Bytes message);

private:
    void forget(std::uint64_t key);

    std::unordered_map<std::uint64_t, std::uint32_t> counts_;
    std::deque<std::uint64_t> order_; ///< oldest first; those taken stay until they are old
};

} // namespace reprise::trace
