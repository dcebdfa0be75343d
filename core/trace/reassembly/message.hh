#pragma once
// What reading a trace of any form yields, and how it is asked for.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
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
    bool closes = false; ///< yield the closes of clients as well (Message::closes)
    /// Of captures: called with every TCP handshake (handshake.hh) when it is complete, if set.
    std::function<void(const TcpHandshake&)> handshakes{};
};

/// One DNS message of the trace. `bytes` borrows: it is good until the next call of Reader::next().
///
/// Or, where ReaderOptions::closes asks for it, no message: `source` closed its TCP connection
/// (FIN or RST) before the server did. It comes once a connection, behind all messages of `source`
/// on it, and only where one of them was a query; connections that are forgotten before the close
/// is whole (idle, evicted, end of the trace) have none.
struct Message {
    Nanoseconds time = 0; ///< since the epoch; of the packet that completed the message
    Endpoint source;
    Endpoint destination;
    Transport transport = Transport::kUdp;
    std::uint64_t connection = 0; ///< TCP connection in the trace, from 1; 0 for UDP
    bool first_in_connection =
        false;                   ///< first yielded of its direction: first query, first response
    bool response = false;       ///< QR bit, whatever the ports say
    bool closes = false;         ///< no message: the connection was closed
    std::uint16_t rtt_class = 0; ///< as Query's; only the text and the stream form have them
    std::uint16_t idle_class = 0;
    Bytes bytes; ///< at least 12 bytes; empty with `closes`
};

/// Counters by name (tally.hh says what each means; those at zero are absent), each a packet or
/// message that was not yielded or was special; printed at the end.
using Counters = std::map<std::string, std::uint64_t>;

} // namespace reprise::trace
