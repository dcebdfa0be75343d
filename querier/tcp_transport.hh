#pragma once
// TCP: one connection a source, opened by its first query and reused while it lasts. Queries are
// pipelined, one segment each; answers may come in any order. The connection ends when the server
// closes it, or when it was idle for the idle timeout; never by us while a query is in flight.
//
// A connection with one id in flight twice could not tell the answers apart, so the second query's
// id is rewritten (and restored in what we record). An AXFR's further messages have the same key as
// the first, which ended the query: they are counted as duplicates.

#include "core/clock.hh"
#include "core/fd.hh"
#include "querier/connection_queue.hh"
#include "querier/descriptors.hh"
#include "querier/links.hh"
#include "querier/matcher.hh"
#include "querier/poller.hh"
#include "querier/reply_stream.hh"
#include "querier/slots.hh"
#include "querier/statistics.hh"
#include "querier/transport.hh"

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace reprise::querier {

class TcpTransport {
public:
    TcpTransport(Poller& poller, Descriptors& descriptors, Slots& slots, Matcher& matcher,
                 const Servers& servers, Nanoseconds idle_timeout, Statistics& statistics,
                 TransportEvents& events, SourceOf source);

    /// Hands the query to its source's connection. On kDone the transport has it until on_failed(),
    /// detach() or an answer; on_failed() may come before this returns, so the slot must not be
    /// touched afterwards.
    SendResult submit(std::uint32_t slot);

    /// Something happened on a connection.
    void handle(const EventTag& tag, std::uint32_t events);

    /// The query ended; its connection forgets it.
    void detach(std::uint32_t slot);

    /// The query's time is up. True where it was opening its connection: all queries on it have
    /// failed.
    bool connect_timed_out(std::uint32_t slot);

    /// Closes connections idle for the idle timeout.
    void close_idle(Nanoseconds now);

    /// When close_idle() has something to do; far in the future where never.
    [[nodiscard]] Nanoseconds next_idle() const;

    /// Closes the least recently used idle connection; false where there is none.
    bool evict_idle();

private:
    struct Connection {
        FileDescriptor fd;
        std::uint32_t source = 0;
        std::uint32_t number = 0; ///< from 1, never used again
        std::uint32_t generation = 0;
        std::uint32_t opener = kNone; ///< query that opens it, until it is established
        bool established = false;
        bool is_idle = false;
        bool writable_wanted = false;
        Nanoseconds syn = 0;
        Nanoseconds idle_since = 0;
        ConnectionQueue queue;
        std::vector<std::uint8_t> tail; ///< what the kernel did not take of the last message
        ReplyStream replies;
        Links idle;
    };

    SendResult attach(std::uint32_t slot);
    std::uint32_t connection_for(std::uint32_t slot, SendResult& result);
    /// Begins to connect at `syn`, read right before the system call.
    SendResult connect(FileDescriptor& fd, const Slot& slot, Nanoseconds& syn);
    SendResult bind_source(int fd, const Slot& slot);
    std::uint32_t adopt(FileDescriptor fd, std::uint32_t slot, Nanoseconds syn);
    void finish_connect(std::uint32_t place);
    void read(std::uint32_t place);
    bool flush_tail(Connection& connection);
    void write(std::uint32_t place);
    /// False: stop writing for now.
    bool write_one(std::uint32_t place, std::uint32_t slot);
    void prepare(const Connection& connection, Slot& slot);
    void want_writable(std::uint32_t place, bool wanted);
    void set_idle(std::uint32_t place, bool idle);
    void lose(std::uint32_t place);
    void close(std::uint32_t place);

    Poller& poller_;
    Descriptors& descriptors_;
    Slots& slots_;
    Matcher& matcher_;
    Servers servers_;
    Nanoseconds idle_timeout_;
    Statistics& statistics_;
    TransportEvents& events_;
    SourceOf source_; ///< empty: the host's own address

    std::vector<Connection> connections_;
    std::vector<std::uint32_t> free_;
    IndexList<&Connection::idle> idle_; ///< longest idle first
    std::unordered_map<std::uint32_t, std::uint32_t> by_source_;
    std::uint32_t last_number_ = 0;
    std::vector<std::uint8_t> buffer_;  ///< one read
    std::vector<std::uint8_t> segment_; ///< one query with its length
    bool warned_ = false;
};

} // namespace reprise::querier
