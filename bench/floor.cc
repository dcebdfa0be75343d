// reprise-floor: what a query on a connection of its own costs at the least.
//
// The system calls that any client must do for a query over TCP, and OpenSSL's own work for one
// over TLS, in a plain loop with a bounded number of connections at a time: socket, bind to a
// source address, connect, one query, one answer, close. Nothing is scheduled, matched, timed or
// recorded, so what a real client costs more is its own. It shares no code with the querier.
#include "bench/tls_socket.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/base/openssl.hh"

#include <fmt/format.h>
#include <openssl/prov_ssl.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <openssl/types.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace {

using reprise::check;
using reprise::FileDescriptor;
using reprise::TlsContext;
using reprise::TlsSession;
using namespace reprise::bench;

struct Options {
    std::string server;
    std::uint16_t port = 53;
    std::uint64_t connections = 1000;
    std::uint32_t in_flight = 100;
    std::uint32_t sources = 0; ///< addresses from 10.0.0.1 on in turn; 0: the host's own
    std::string authority;     ///< PEM file; with it TLS is spoken and the server verified
    std::string name;
    bool resume = false;
    bool early_data = false;
};

constexpr std::uint32_t kFirstSource = 0x0a000001; // 10.0.0.1
constexpr std::size_t kQuerySize = 2 + 12 + 27;    // of n000000.bench.example, A, IN
constexpr std::size_t kReadSize = 4096;
constexpr std::size_t kEventsATurn = 64;
constexpr int kPatienceMs = 10'000;

using Query = std::array<std::uint8_t, kQuerySize>;

/// With its length before it; the name's digits and the id tell one query from another.
Query make_query(std::uint64_t number) {
    constexpr std::string_view kPattern(
        "\0\x27\0\0\1\0\0\1\0\0\0\0\0\0\7n000000\5bench\7example\0\0\1\0\1", kQuerySize);
    Query query{};
    std::ranges::copy(kPattern, query.begin());
    query[2] = static_cast<std::uint8_t>(number >> 8U);
    query[3] = static_cast<std::uint8_t>(number);
    for (std::size_t place = 21; place > 15; --place, number /= 10) {
        query.at(place) = static_cast<std::uint8_t>('0' + number % 10);
    }
    return query;
}

/// Sessions to resume, from any connection. One session serves one connection: OpenSSL changes it
/// when that one gets a ticket or closes, so that others could not resume from it.
using Tickets = std::vector<TlsSession>;

/// OpenSSL's callback; takes the session over.
int keep(SSL* tls, SSL_SESSION* session) {
    static_cast<Tickets*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), 0))->emplace_back(session);
    return 1;
}

/// The newest, or a copy of the only one, so that there is always one.
TlsSession take(Tickets& tickets) {
    if (tickets.size() == 1) {
        return TlsSession(SSL_SESSION_dup(tickets.back().get()));
    }
    TlsSession newest = std::move(tickets.back());
    tickets.pop_back();
    return newest;
}

TlsContext make_context(const Options& options, Tickets& tickets) {
    TlsContext context(SSL_CTX_new(TLS_client_method()));
    reprise::demand(
        SSL_CTX_load_verify_file(context.get(), options.authority.c_str()) == 1,
        fmt::format("--ca {}: no certificate in it; give a PEM file", options.authority));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
    SSL_CTX_set_read_ahead(context.get(), 1);
    if (options.resume) {
        SSL_CTX_set_session_cache_mode(context.get(),
                                       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_set_ex_data(context.get(), 0, &tickets);
        SSL_CTX_sess_set_new_cb(context.get(), keep);
    }
    return context;
}

class Floor {
public:
    explicit Floor(const Options& options)
        : options_(options), epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
          connections_(options.in_flight) {
        server_.sin_family = AF_INET;
        server_.sin_port = htons(options.port);
        reprise::demand(inet_pton(AF_INET, options.server.c_str(), &server_.sin_addr) == 1,
                        fmt::format("{}: not an IPv4 address; give the server's", options.server));
        if (!options.authority.empty()) {
            context_ = make_context(options, tickets_);
        }
    }

    /// Returns its counts.
    reprise::Json run() {
        if (options_.resume) {
            run_until(1); // fetches the first ticket
            if (tickets_.empty()) {
                throw reprise::Error("the server gave no session ticket; use one that does");
            }
        }
        run_until(options_.connections);
        if (failed_ > 0) {
            throw reprise::Error(fmt::format("{} of {} connections failed, the first one: {}",
                                             failed_, begun_, reason_));
        }
        return {{"connections", begun_},
                {"answered", answered_},
                {"resumed", resumed_},
                {"early_data", early_data_}};
    }

private:
    using Result = TlsSocket::Result;

    struct Connection {
        TlsSocket socket;
        Query query{};
        bool sent = false;
        bool early = false; ///< the query went with a handshake that has not ended yet
        TlsSocket::Handshake handshake{};
    };

    /// Begins connections up to the `limit`-th and waits for the end of all.
    void run_until(std::uint64_t limit) {
        limit_ = limit;
        for (std::uint32_t place = 0; place < options_.in_flight; ++place) {
            begin_next(place);
        }
        std::array<epoll_event, kEventsATurn> events{};
        while (open_ > 0) {
            const int count = epoll_wait(epoll_.get(), events.data(), kEventsATurn, kPatienceMs);
            if (count == 0) {
                throw reprise::Error("no answer for 10 s; is the server running?");
            }
            for (int i = 0; i < count; ++i) {
                const std::uint32_t place = events.at(static_cast<std::size_t>(i)).data.u32;
                const Result result = advance(connections_[place]);
                if (result != Result::kLater) {
                    end(place, result);
                    begin_next(place);
                }
            }
        }
    }

    void begin_next(std::uint32_t place) {
        if (begun_ == limit_) {
            return;
        }
        Connection& connection = connections_[place];
        connection = {.socket = TlsSocket(connect(), context_.get()), .query = make_query(begun_)};
        if (context_) {
            start_tls(connection);
        }
        epoll_event event{};
        event.events = EPOLLIN | EPOLLOUT | EPOLLET;
        event.data.u32 = place;
        check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection.socket.fd(), &event), "epoll_ctl");
        ++begun_;
        ++open_;
    }

    [[nodiscard]] FileDescriptor connect() const {
        FileDescriptor fd(
            check(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
        if (options_.sources > 0) { // the port is chosen by connect, with the peer in mind
            sockaddr_in source{};
            source.sin_family = AF_INET;
            source.sin_addr.s_addr =
                htonl(kFirstSource + static_cast<std::uint32_t>(begun_ % options_.sources));
            set_on(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT);
            check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&source), sizeof source),
                  "bind to a source address");
        }
        if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&server_), sizeof server_) != 0 &&
            errno != EINPROGRESS) {
            throw reprise::SystemError(fmt::format("connect to {}", options_.server));
        }
        return fd;
    }

    void start_tls(Connection& connection) {
        // The query follows the handshake's last part.
        set_on(connection.socket.fd(), IPPROTO_TCP, TCP_NODELAY);
        SSL* const tls = connection.socket.tls();
        if (!options_.name.empty()) {
            SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                     options_.name.data()); // its macro has an old-style cast
            SSL_set1_host(tls, options_.name.c_str());
        }
        if (!tickets_.empty()) {
            SSL_set_session(tls, take(tickets_).get());
            if (options_.early_data) {
                connection.socket.use_early_data();
                connection.early = true;
            }
        }
    }

    void end(std::uint32_t place, Result result) {
        Connection& connection = connections_[place];
        if (result == Result::kDone) {
            ++answered_;
            connection.socket.take_handshake(connection.handshake);
            resumed_ += connection.handshake.resumed ? 1U : 0U;
            early_data_ += connection.handshake.early_data ? 1U : 0U;
            if (context_) {
                SSL_shutdown(connection.socket.tls());
            }
        } else if (failed_++ == 0) {
            reason_ = result == Result::kEnded ? "closed by the server" : failure();
        }
        connection = {};
        --open_;
    }

    /// Sends the query and reads its answer; kDone is the answer's.
    Result advance(Connection& connection) const {
        std::size_t size = 0;
        if (!connection.sent) {
            const Result result = connection.socket.write(connection.query, size);
            if (result != Result::kDone) {
                return result;
            }
            connection.sent = true;
            if (!context_) {
                return Result::kLater; // the answer is another event
            }
        }
        std::array<std::uint8_t, kReadSize> answer{};
        const Result result = connection.socket.read(answer, size);
        if (connection.early && connection.socket.take_handshake(connection.handshake)) {
            connection.early = false;
            if (result == Result::kLater && !connection.handshake.early_data) {
                connection.sent = false; // the server wants it again
                return advance(connection);
            }
        }
        return result;
    }

    Options options_;
    sockaddr_in server_{};
    Tickets tickets_;
    TlsContext context_;
    FileDescriptor epoll_;
    std::vector<Connection> connections_;
    std::uint64_t limit_ = 0;
    std::uint32_t open_ = 0;
    std::uint64_t begun_ = 0;
    std::uint64_t answered_ = 0;
    std::uint64_t failed_ = 0;
    std::uint64_t resumed_ = 0;
    std::uint64_t early_data_ = 0;
    std::string reason_; ///< of the first failure
};

int body(int argc, char** argv) {
    reprise::Command app(
        "Asks one query a connection by the fewest system calls, or with OpenSSL's own "
        "cost; prints its counts as JSON.",
        "reprise-floor");
    Options options;
    app.add_option("SERVER", options.server, "its IPv4 address").required();
    app.add_option("--port", options.port, "of the server").show_default();
    app.add_option("--connections", options.connections, "so many, one query on each")
        .show_default();
    app.add_option("--in-flight", options.in_flight, "most connections at a time")
        .in_range(1, 10000)
        .show_default();
    app.add_option("--sources", options.sources,
                   "bind to this many addresses from 10.0.0.1 on in turn; 0: to none")
        .show_default();
    const reprise::Option authority =
        app.add_option("--ca", options.authority, "speak TLS 1.3; verify with this authority, PEM");
    app.add_option("--name", options.name, "of the server, in its certificate").needs(authority);
    const reprise::Option resume =
        app.add_flag("--resume", options.resume, "resume sessions").needs(authority);
    app.add_flag("--early-data", options.early_data, "send the query with the handshake (0-RTT)")
        .needs(resume);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    std::cout << reprise::json_text(Floor(options).run()) << '\n';
    return 0;
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-floor", body, argc, argv); }
