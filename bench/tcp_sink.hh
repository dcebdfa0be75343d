#pragma once
// The sink over TCP and TLS: answers each query with itself, QR and AA set.
//
// A process has 20,000 descriptors, so several share the port (SO_REUSEPORT). They count in memory
// shared with their parent.

#include "bench/evidence.h"
#include "bench/tls_socket.hh"
#include "core/base/clock.hh"
#include "core/base/fd.hh"
#include "core/base/openssl.hh"

#include <openssl/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace reprise::bench {

inline constexpr std::size_t kMostProcesses = 64;

struct TcpOptions {
    std::uint16_t port = 53;
    std::size_t processes = 8;
    std::uint32_t delay_ms = 0; ///< between reading a query and answering it
    std::string certificate;    ///< PEM file; empty: plain TCP
    std::string key;
    std::uint32_t early_data = 0; ///< bytes taken before a handshake's end (0-RTT); 0: none
    std::string keylog;           ///< file that takes the sessions' secrets, for tshark
};

/// A context for `options`; tickets sealed in one process open in every process forked afterward.
/// Null where TLS is not spoken. Throws UsageError.
TlsContext make_server_context(const TcpOptions& options);

/// Of all processes together.
struct TcpCounters {
    using Counter = std::atomic<std::uint64_t>;

    Counter queries{0}; ///< whole messages read, each answered
    Counter connections{0};
    Counter handshakes{0}; ///< TLS handshakes that came to their end
    Counter resumed{0};    ///< of these
    Counter early_data{0}; ///< of these: early data taken
    Counter failed{0};     ///< connections that ended in an error: reset, handshake, no DNS message
    Counter closed_by_client{0};
    Counter open{0};
    Counter peak_open{0};
    std::array<Counter, kSourceBits / 64> sources{}; ///< one bit each

    void opened(std::uint32_t source);
    [[nodiscard]] nlohmann::ordered_json evidence() const;
};

/// One process. Listens on all addresses of both families.
class TcpServer {
public:
    /// `tls` is borrowed; null: plain TCP. Throws SystemError.
    TcpServer(TcpOptions options, SSL_CTX* tls, TcpCounters& counters);

    /// Serves until the process ends. Throws where descriptors run out.
    [[noreturn]] void run();

private:
    struct Connection {
        TlsSocket socket;
        std::vector<std::uint8_t> begun{};  ///< of a message
        std::vector<std::uint8_t> unsent{}; ///< of answers
    };

    /// Answers that wait for their time.
    struct Held {
        Nanoseconds due;
        std::weak_ptr<Connection> connection;
        std::vector<std::uint8_t> bytes;
    };

    void listen_on(std::uint8_t family);
    void take_turn();
    [[nodiscard]] int pause_ms() const;
    void accept_all(int listener);
    bool accept_one(int listener);
    void on_event(int fd, std::uint32_t events);
    void read_all(Connection& connection, bool to_the_end);
    TlsSocket::Result read_once(Connection& connection, bool& more);
    bool answer(Connection& connection, std::size_t held);
    void send(Connection& connection, std::span<const std::uint8_t> bytes);
    void send_due();
    void close(Connection& connection, TcpCounters::Counter& because);

    TcpOptions options_;
    SSL_CTX* tls_;
    TcpCounters& counters_;
    FileDescriptor epoll_;
    std::vector<FileDescriptor> listeners_;
    std::vector<std::shared_ptr<Connection>> connections_; ///< by descriptor
    std::deque<Held> held_;
    std::vector<std::uint8_t> buffer_;
};

} // namespace reprise::bench
