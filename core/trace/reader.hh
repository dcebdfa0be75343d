#pragma once
// Reads DNS messages from traces of any form, known by content. This folder is the only user of
// libtrace, libpcap and libarchive.

#include "core/address.hh"
#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/error.hh"
#include "core/query.hh"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

class MessageSource;

/// Yields every DNS message of a trace in file order, whatever the trace's form. Throws TraceError
/// on opening; later trouble (a cut or corrupt file) ends the messages and stands in trouble().
class Reader {
public:
    /// `path` "-" is standard input; pipes are read as well.
    explicit Reader(const std::string& path, const ReaderOptions& options = {});
    ~Reader();
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) noexcept;

    /// Next message; false at the end.
    bool next(Message& message);

    /// So far.
    [[nodiscard]] Counters counters() const;
    [[nodiscard]] std::uint64_t packets() const;

    /// Why reading ended before the end of a whole file, one line; empty where the file was whole.
    [[nodiscard]] const std::string& trouble() const;

    /// Share of the file's bytes read so far, 0 to 1, as a rough measure of progress; 0 where the
    /// size is unknown (a pipe).
    [[nodiscard]] double share_read() const;

    /// What was read, e.g. "pcapng, gzip, libpcap".
    [[nodiscard]] std::string description() const;

private:
    std::unique_ptr<MessageSource> source_;
};

} // namespace reprise::trace
