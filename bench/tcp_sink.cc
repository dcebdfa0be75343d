#include "bench/tcp_sink.hh"

#include "bench/evidence.h"
#include "bench/tls_socket.hh"
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/openssl.hh"
#include "core/base/signals.hh"

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <openssl/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <iostream>
#include <limits>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::bench {
namespace {

constexpr std::size_t kMostMessage = 65535;
constexpr std::size_t kHeader = 12;
constexpr std::uint8_t kQr = 0x80;
constexpr std::uint8_t kAa = 0x04;
constexpr int kBacklog = std::numeric_limits<std::int32_t>::max(); // the kernel cuts it: somaxconn
constexpr int kAcceptsATurn = 64;
constexpr std::size_t kEventsATurn = 256;

constexpr std::array<unsigned char, 4> kAlpn{3, 'd', 'o', 't'};

int choose_alpn(SSL* /*tls*/, const unsigned char** out, unsigned char* size,
                const unsigned char* offered, unsigned offered_size, void* /*argument*/) {
    unsigned char* chosen = nullptr;
    if (SSL_select_next_proto(&chosen, size, kAlpn.data(), kAlpn.size(), offered, offered_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/// Written by every process to one file; a line is one write, so that lines do not mix.
std::FILE* keylog_file = nullptr;

void write_keylog(const SSL* /*tls*/, const char* line) {
    const std::string text = fmt::format("{}\n", line);
    std::fwrite(text.data(), 1, text.size(), keylog_file);
    std::fflush(keylog_file);
}

void watch(int epoll, int fd, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    check(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

/// Turns the whole length-prefixed queries at the beginning of `bytes` into their answers in place;
/// `queries` of them. Returns their size; nothing where a message is no query.
std::optional<std::size_t> answer_in_place(std::span<std::uint8_t> bytes, std::size_t& queries) {
    std::size_t place = 0;
    for (queries = 0; bytes.size() - place >= 2; ++queries) {
        const auto size = static_cast<std::size_t>(bytes[place] << 8U | bytes[place + 1]);
        if (size < kHeader) {
            return std::nullopt;
        }
        if (bytes.size() - place < 2 + size) {
            break;
        }
        std::uint8_t& flags = bytes[place + 4];
        if ((flags & kQr) != 0) {
            return std::nullopt;
        }
        flags |= kQr | kAa;
        place += 2 + size;
    }
    return place;
}

/// A context for `options`; tickets sealed in one process open in every process forked afterward.
/// Null where TLS is not spoken. Throws UsageError.
TlsContext make_server_context(const TcpOptions& options) {
    if (options.certificate.empty()) {
        return {};
    }
    TlsContext context(SSL_CTX_new(TLS_server_method()));
    if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context.get(), options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context.get()) != 1) {
        throw UsageError(fmt::format("--cert {} --key {}: {}; give PEM files that belong together",
                                     options.certificate, options.key, failure()));
    }
    // Tickets hold the session, so any process can take up what another one began. For early data
    // OpenSSL would keep sessions itself against replays: every process its own, so not here.
    SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_ANTI_REPLAY);
    SSL_CTX_set_max_early_data(context.get(), options.early_data);
    SSL_CTX_set_recv_max_early_data(context.get(), options.early_data);
    SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, nullptr);
    SSL_CTX_set_read_ahead(context.get(), 1);
    SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                        SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (!options.keylog.empty()) {
        keylog_file = std::fopen(options.keylog.c_str(), "ae");
        demand(keylog_file != nullptr,
               fmt::format("--keylog {}: cannot be written; choose another place", options.keylog));
        SSL_CTX_set_keylog_callback(context.get(), write_keylog);
    }
    return context;
}

using Counter = std::atomic<std::uint64_t>;

void count(Counter& counter, std::uint64_t by = 1) {
    counter.fetch_add(by, std::memory_order_relaxed);
}

/// Of all processes together.
struct TcpCounters {
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

    /// `source`: the last 32 bits of its address.
    void opened(std::uint32_t source) {
        count(connections);
        const std::uint64_t now = open.fetch_add(1, std::memory_order_relaxed) + 1;
        std::uint64_t most = peak_open.load(std::memory_order_relaxed);
        while (now > most &&
               !peak_open.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
        }
        const std::uint32_t bit = source % kSourceBits;
        sources.at(bit / 64).fetch_or(std::uint64_t{1} << (bit % 64), std::memory_order_relaxed);
    }

    [[nodiscard]] Json evidence() const {
        std::uint64_t seen = 0;
        for (const Counter& word : sources) {
            seen += static_cast<std::uint64_t>(std::popcount(word.load()));
        }
        return {{"queries", queries.load()},
                {"connections", connections.load()},
                {"handshakes", handshakes.load()},
                {"resumed", resumed.load()},
                {"early_data", early_data.load()},
                {"failed", failed.load()},
                {"closed_by_client", closed_by_client.load()},
                {"open", open.load()},
                {"peak_open", peak_open.load()},
                {"sources", seen}};
    }
};

/// One process. Listens on all addresses of both families.
class TcpServer {
public:
    /// `tls` is borrowed; null: plain TCP. Throws SystemError.
    TcpServer(TcpOptions options, SSL_CTX* tls, TcpCounters& counters)
        : options_(std::move(options)), tls_(tls), counters_(counters),
          epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
          connections_(raise_descriptor_limit()), buffer_(2 * (2 + kMostMessage)) {
        listen_on(4);
        listen_on(6);
    }

    /// Serves until the process ends. Throws where descriptors run out.
    [[noreturn]] void run() {
        std::array<epoll_event, kEventsATurn> events{};
        while (true) {
            const int count = epoll_wait(epoll_.get(), events.data(), kEventsATurn, pause_ms());
            if (count < 0 && errno != EINTR) {
                throw SystemError("epoll_wait");
            }
            for (int i = 0; i < count; ++i) {
                const epoll_event& event = events.at(static_cast<std::size_t>(i));
                on_event(event.data.fd, event.events);
            }
            send_due();
        }
    }

private:
    using Result = TlsSocket::Result;

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

    void listen_on(std::uint8_t family) {
        sockaddr_storage own{};
        const Endpoint any{.address = {.bytes = {}, .family = family}, .port = options_.port};
        const socklen_t size = any.to_sockaddr(own);
        FileDescriptor fd(check(
            ::socket(own.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket"));
        set_on(fd.get(), SOL_SOCKET, SO_REUSEADDR);
        set_on(fd.get(), SOL_SOCKET, SO_REUSEPORT);
        set_on(fd.get(), IPPROTO_TCP, TCP_NODELAY); // accepted sockets inherit it
        if (own.ss_family == AF_INET6) {
            set_on(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY);
        }
        check(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), size), "bind");
        check(::listen(fd.get(), kBacklog), "listen");
        watch(epoll_.get(), fd.get(), EPOLLIN);
        listeners_.push_back(std::move(fd));
    }

    /// Until the next answer is due, -1: for ever.
    int pause_ms() const {
        if (held_.empty()) {
            return -1;
        }
        const Nanoseconds left = held_.front().due - SteadyClock::now();
        return static_cast<int>(std::max<Nanoseconds>(0, (left + kMillisecond - 1) / kMillisecond));
    }

    void on_event(int fd, std::uint32_t events) {
        // Kept: it may be closed meanwhile.
        const std::shared_ptr<Connection> connection = connections_[static_cast<std::size_t>(fd)];
        if (!connection) {
            if (std::ranges::any_of(listeners_,
                                    [fd](const auto& one) { return one.get() == fd; })) {
                for (int i = 0; i < kAcceptsATurn && accept_one(fd); ++i) {
                }
            }
            return;
        }
        if ((events & EPOLLOUT) != 0 && !connection->unsent.empty()) {
            send(*connection, std::exchange(connection->unsent, {}));
        }
        if (connections_[static_cast<std::size_t>(fd)] &&
            (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
            read_all(*connection, (events & ~(EPOLLIN | EPOLLOUT)) != 0);
        }
    }

    bool accept_one(int listener) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        FileDescriptor fd(::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.valid()) {
            if (errno == EMFILE || errno == ENFILE) {
                throw Error("no descriptor left for another connection; give more --processes");
            }
            return false;
        }
        // The answer carries the acknowledgement; where there is none it is late, as a busy
        // server's.
        const int off = 0;
        setsockopt(fd.get(), IPPROTO_TCP, TCP_QUICKACK, &off, sizeof off);
        const int number = fd.get();
        auto& place = connections_[static_cast<std::size_t>(number)];
        place = std::make_shared<Connection>(Connection{.socket = TlsSocket(std::move(fd), tls_)});
        if (options_.early_data > 0) {
            place->socket.use_early_data();
        }
        watch(epoll_.get(), number, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
        const IpAddress from = Endpoint::from_sockaddr(peer).address;
        counters_.opened(Cursor(Bytes(from.bytes).subspan(from.size() - 4)).u32be());
        return true;
    }

    void close(Connection& connection, Counter& because) {
        count(because);
        counters_.open.fetch_sub(1, std::memory_order_relaxed);
        connections_[static_cast<std::size_t>(connection.socket.fd())].reset();
    }

    /// Events come on changes only, so all that is there must be read. A read that leaves room took
    /// everything, except that the end itself may lie behind it.
    void read_all(Connection& connection, bool to_the_end) {
        const auto place = static_cast<std::size_t>(connection.socket.fd());
        bool more = true;
        while (more) {
            const Result result = read_once(connection, more);
            if (!connections_[place] || result == Result::kLater) {
                return; // closed while its answer was sent, or all is read
            }
            if (result != Result::kDone) {
                const bool ended = result == Result::kEnded;
                close(connection, ended ? counters_.closed_by_client : counters_.failed);
                return;
            }
            more = more || to_the_end || tls_ != nullptr;
        }
    }

    Result read_once(Connection& connection, bool& more) {
        const std::size_t begun = connection.begun.size();
        std::ranges::copy(connection.begun, buffer_.begin());
        const auto space = std::span(buffer_).subspan(begun);
        std::size_t got = 0;
        const Result result = connection.socket.read(space, got);
        TlsSocket::Handshake handshake; // counted before the answer: who has that may end us
        if (connection.socket.take_handshake(handshake)) {
            count(counters_.handshakes);
            count(counters_.resumed, handshake.resumed ? 1 : 0);
            count(counters_.early_data, handshake.early_data ? 1 : 0);
        }
        if (result != Result::kDone) {
            return result;
        }
        more = got == space.size();
        return answer(connection, begun + got) ? Result::kDone : Result::kFailed;
    }

    /// Answers what is whole of the first `held` bytes of the buffer, keeps the rest.
    bool answer(Connection& connection, std::size_t held) {
        const auto bytes = std::span(buffer_).first(held);
        std::size_t queries = 0;
        const auto whole = answer_in_place(bytes, queries);
        if (!whole) {
            return false;
        }
        const auto answers = bytes.first(*whole);
        connection.begun.assign(answers.end(), bytes.end());
        if (answers.empty()) {
            return true;
        }
        count(counters_.queries, queries);
        if (options_.delay_ms > 0) {
            held_.push_back(
                {.due = SteadyClock::now() + options_.delay_ms * kMillisecond,
                 .connection = connections_[static_cast<std::size_t>(connection.socket.fd())],
                 .bytes = {answers.begin(), answers.end()}});
        } else {
            send(connection, answers);
        }
        return true;
    }

    void send(Connection& connection, std::span<const std::uint8_t> bytes) {
        std::size_t put = 0;
        auto result = connection.unsent.empty() ? Result::kDone : Result::kLater;
        while (!bytes.empty() && result == Result::kDone) {
            result = connection.socket.write(bytes, put);
            bytes = bytes.subspan(result == Result::kDone ? put : 0);
        }
        if (result == Result::kLater) {
            connection.unsent.insert(connection.unsent.end(), bytes.begin(), bytes.end());
        } else if (result != Result::kDone) {
            close(connection, counters_.failed);
        }
    }

    void send_due() {
        while (!held_.empty() && held_.front().due <= SteadyClock::now()) {
            const Held one = std::move(held_.front());
            held_.pop_front();
            if (const auto connection = one.connection.lock()) {
                send(*connection, one.bytes);
            }
        }
    }

    TcpOptions options_;
    SSL_CTX* tls_;
    TcpCounters& counters_;
    FileDescriptor epoll_;
    std::vector<FileDescriptor> listeners_;
    std::vector<std::shared_ptr<Connection>> connections_; ///< by descriptor
    std::deque<Held> held_;
    std::vector<std::uint8_t> buffer_;
};

TcpCounters& make_shared_counters() {
    void* const memory = mmap(nullptr, sizeof(TcpCounters), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw SystemError("mmap");
    }
    return *new (memory) TcpCounters;
}

/// The sink's processes; they end with this object, or with their parent.
class Workers {
public:
    Workers() = default;
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    ~Workers() {
        for (const int pid : pids_) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
    }

    /// `body` runs in a process of its own and does not return; it may throw.
    template <typename Body> void start(Body body) {
        const int parent = getpid();
        const int pid = check(fork(), "fork");
        if (pid != 0) {
            pids_.push_back(pid);
            return;
        }
        pids_.clear(); // they are the parent's
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        body();
    }

private:
    std::vector<int> pids_;
};

} // namespace

Json serve_tcp(const TcpOptions& options, const Signals& ending) {
    check(std::signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0, "signal");
    const TlsContext tls = make_server_context(options);
    TcpCounters& counters = make_shared_counters();
    {
        Workers workers;
        for (std::size_t i = 0; i < options.processes; ++i) {
            // Made here, so that whoever reads "listening" below can connect.
            auto server = std::make_unique<TcpServer>(options, tls.get(), counters);
            workers.start([&server] { server->run(); });
        }
        std::cerr << "event=listening port=" << options.port << '\n';
        if (ending.next(kForEver) == SIGCHLD) {
            throw Error("a process of the sink ended; its message is above");
        }
    }
    return counters.evidence();
}

} // namespace reprise::bench
