#pragma once
// How the queries and responses of a trace are asked for, whatever its form.

#include "core/base/error.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::trace {

/// The trace cannot be read at all: missing, empty, not a capture, unknown link type. One line with
/// the hint.
class TraceError : public Error {
public:
    using Error::Error;
};

struct TcpHandshake;

struct ReaderOptions {
    std::vector<std::uint16_t> ports{53}; ///< DNS ports, either end
    size_t fragment_bytes = 16UL << 20U;  ///< most memory for fragments waiting for their others
    size_t stream_bytes = 64UL << 20U;    ///< most memory for TCP segments waiting
    size_t connections = 262'144;         ///< most TCP connections followed at once
    Nanoseconds fragment_timeout = 30 * kSecond;    ///< trace time
    Nanoseconds connection_timeout = 300 * kSecond; ///< trace time without a packet
    /// Yield the closes of clients as well (Query::is_close()). Connections that are forgotten
    /// before the close is whole (idle, evicted, end of the trace) have none.
    bool closes = false;
    /// Of captures: called with every TCP handshake (connections.hh) when it is complete, if set.
    std::function<void(const TcpHandshake&)> handshakes{};
};

/// Counters by name (tally.hh says what each means; those at zero are absent), each a packet or
/// message that was not yielded or was special; printed at the end.
using Counters = std::map<std::string, std::uint64_t, std::less<>>;

inline void count(Counters& all, std::string_view name) {
    const auto found = all.find(name);
    ++(found == all.end() ? all.emplace(name, 0).first : found)->second;
}

inline void add(Counters& all, const Counters& more) {
    for (const auto& [name, count] : more) {
        all[name] += count;
    }
}

} // namespace reprise::trace
