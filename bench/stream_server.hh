#pragma once
// One process of reprise-stream-sink: accepts connections, answers each query with itself.

#include "bench/stream_counters.hh"
#include "bench/stream_link.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace reprise::bench {

struct StreamServerOptions {
    std::uint16_t port = 53;
    Nanoseconds idle_timeout = 0; ///< 0: the client closes first, always
    Nanoseconds delay = 0;        ///< between reading a query and answering it
    SSL_CTX* tls = nullptr;       ///< borrowed; null: plain TCP
    bool early_data = false;
};

/// Turns the whole length-prefixed queries at the beginning of `bytes` into their answers (QR and
/// AA set) in place; `queries` of them. Returns their size; nothing where a message is no query.
std::optional<std::size_t> answer_in_place(std::span<std::uint8_t> bytes, std::size_t& queries);

/// Listens on all addresses of both families; several processes share the port.
class StreamServer {
public:
    /// Throws SystemError.
    StreamServer(const StreamServerOptions& options, StreamCounters& counters,
                 SharedCounters& shared);

    /// Serves until the process ends. Throws where descriptors run out.
    [[noreturn]] void run();

private:
    struct Connection {
        Link link;
        std::uint32_t serial;               ///< tells it from an earlier one of the same descriptor
        std::vector<std::uint8_t> begun{};  ///< of a message
        std::vector<std::uint8_t> unsent{}; ///< of answers
        Nanoseconds active = 0;
        std::list<int>::iterator age{}; ///< its place in `by_age_`
    };

    /// Answers that wait for their time.
    struct Held {
        Nanoseconds due;
        int fd;
        std::uint32_t serial;
        std::vector<std::uint8_t> bytes;
    };

    void listen_on(int family);
    void take_turn();
    [[nodiscard]] int pause_ms() const;
    void accept_all(int listener);
    bool accept_one(int listener);
    void on_event(int fd, std::uint32_t events);
    void read_all(Connection& connection, bool to_the_end);
    Link::Result read_once(Connection& connection, bool& more);
    bool answer(Connection& connection, std::size_t held);
    void send(Connection& connection, std::span<const std::uint8_t> bytes);
    void flush(Connection& connection);
    void send_due();
    void close_idle();
    void close(Connection& connection, Counter& because);
    void count_handshake(Connection& connection);

    StreamServerOptions options_;
    StreamCounters& counters_;
    SharedCounters& shared_;
    FileDescriptor epoll_;
    std::vector<FileDescriptor> listeners_;
    std::vector<std::unique_ptr<Connection>> connections_; ///< by descriptor
    std::list<int> by_age_; ///< descriptors, the longest idle first; kept with an idle timeout only
    std::deque<Held> held_;
    std::vector<std::uint8_t> buffer_;
    std::uint32_t serial_ = 0;
    Nanoseconds now_ = 0; ///< at the turn's beginning
};

} // namespace reprise::bench
