#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/tree/host.hh"
#include "core/tree/kernel_host.hh"
#include "core/wire/frame.hh"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/listener.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/types.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <string>
#include <sys/socket.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::tree {
namespace {

constexpr size_t kReadPortion = 256UL << 10U;
constexpr size_t kTlsRecord = 16UL << 10U;
constexpr size_t kReadPiece = 7 * kTlsRecord; ///< below malloc's threshold for mmap()
constexpr int kListenQueue = 128;
constexpr size_t kMostNewcomers = 512;
constexpr Nanoseconds kHandshakeTime = 5 * kSecond;
constexpr const char* kClosed = "closed by the other side";
constexpr const char* kNotThisProtocol = "sent something that is not this protocol";

void no_delay(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string failure(bufferevent* b, short what, int error_number) {
    const unsigned long tls = bufferevent_get_openssl_error(b);
    if (const char* reason = ERR_reason_error_string(tls); tls != 0 && reason != nullptr) {
        return fmt::format("TLS: {}", reason);
    }
    // A failed connection comes as SSL_ERROR_SYSCALL (no error code of OpenSSL's queue) with an end
    // of file; errno tells it from a true end, where errno is left over from some earlier call.
    constexpr std::array kOfConnections{ECONNREFUSED, ECONNRESET,  EPIPE,
                                        EHOSTUNREACH, ENETUNREACH, ETIMEDOUT};
    const bool connection = std::ranges::find(kOfConnections, error_number) != kOfConnections.end();
    if ((what & BEV_EVENT_EOF) != 0 && !connection) {
        return kClosed;
    }
    return error_number != 0 ? std::strerror(error_number) : "connection failed";
}

/// Why SSL_read() had nothing: empty where it only waits. Empties OpenSSL's queue of errors.
std::string ending(int tls_error, int error_number) {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    switch (tls_error) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return "";
    case SSL_ERROR_ZERO_RETURN:
        return kClosed;
    case SSL_ERROR_SYSCALL:
        return error_number != 0 ? std::strerror(error_number) : kClosed;
    default:
        const char* reason = ERR_reason_error_string(code);
        return ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING
                   ? kClosed
                   : fmt::format("TLS: {}", reason != nullptr ? reason : "failed");
    }
}

/// Reads whole TLS records as long as one more fits; returns the bytes read.
size_t fill(SSL* tls, std::span<std::uint8_t> space, std::string& trouble) {
    size_t used = 0;
    while (used + kTlsRecord <= space.size()) {
        ERR_clear_error(); // of others: SSL_get_error() looks at the queue
        const int count = SSL_read(tls, space.data() + used, static_cast<int>(kTlsRecord));
        if (count <= 0) {
            trouble = ending(SSL_get_error(tls, count), EVUTIL_SOCKET_ERROR());
            break;
        }
        used += static_cast<size_t>(count);
    }
    return used;
}

class KernelLink final : public Link {
public:
    explicit KernelLink(bufferevent* buffer) : buffer_(buffer) {
        if (buffer == nullptr) {
            throw Error("libevent: no bufferevent; out of memory?");
        }
        bufferevent_set_max_single_read(buffer, kReadPortion);
        bufferevent_set_max_single_write(buffer, kReadPortion);
        bufferevent_setcb(
            buffer, [](bufferevent*, void* self) { static_cast<KernelLink*>(self)->read(); },
            nullptr,
            [](bufferevent*, short what, void* self) {
                static_cast<KernelLink*>(self)->event(what);
            },
            this);
        bufferevent_enable(buffer, EV_READ | EV_WRITE);
    }

    /// Over TLS.
    KernelLink(const KernelHost& host, int socket, SSL* tls, bufferevent_ssl_state state)
        : KernelLink(bufferevent_openssl_socket_new(
              host.base(), socket, tls, state, BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS)) {
        bufferevent_openssl_set_allow_dirty_shutdown(buffer_.get(), 1);
    }

    void connect(const Endpoint& peer) {
        sockaddr_storage address{};
        const auto length = peer.to_sockaddr(address);
        bufferevent_socket_connect(buffer_.get(), reinterpret_cast<sockaddr*>(&address),
                                   static_cast<int>(length));
    }

    /// Called when both sides are verified.
    void set_up(std::function<void()> up) { up_ = std::move(up); }

    void set_handler(Handler handler) override { handler_ = std::move(handler); }

    void send(const Outgoing& frame) override {
        if (open()) {
            bufferevent_write(buffer_.get(), frame.bytes.data(), frame.bytes.size());
        }
    }

    void close() override { buffer_.reset(); }

    [[nodiscard]] bool open() const override { return buffer_ != nullptr; }

    [[nodiscard]] size_t unsent() const override {
        return open() ? evbuffer_get_length(bufferevent_get_output(buffer_.get())) : 0;
    }

    [[nodiscard]] Nanoseconds last_heard() const override { return last_heard_; }

private:
    void read() {
        last_heard_ = SteadyClock::now();
        const std::string trouble = read_on();
        while (open() && read_frame()) {
        }
        if (open() && !trouble.empty()) {
            fail(trouble);
        }
    }

    /// libevent takes one TLS record (16 KiB) from the socket for each turn of its loop, which
    /// costs three more system calls. What else is there is taken here, into pieces large enough
    /// that few blocks must be copied to lie in one. Returns why there will be no more, or nothing.
    std::string read_on() {
        SSL* tls = bufferevent_openssl_get_ssl(buffer_.get());
        evbuffer* input = bufferevent_get_input(buffer_.get());
        std::string trouble;
        if (tls == nullptr || evbuffer_get_length(input) < kTlsRecord / 2) {
            return trouble; // no block; after something short there is seldom more
        }
        while (evbuffer_get_length(input) < kReadPortion) {
            evbuffer_iovec space{};
            evbuffer_reserve_space(input, kReadPiece, &space, 1);
            space.iov_len =
                fill(tls, {static_cast<std::uint8_t*>(space.iov_base), kReadPiece}, trouble);
            evbuffer_commit_space(input, &space, 1);
            if (space.iov_len + kTlsRecord <= kReadPiece) {
                break;
            }
        }
        return trouble;
    }

    /// Takes one whole frame from the input; false where there is none (yet).
    bool read_frame() {
        evbuffer* input = bufferevent_get_input(buffer_.get());
        std::uint32_t size = 0;
        if (evbuffer_copyout(input, &size, sizeof size) < static_cast<ssize_t>(sizeof size)) {
            return false;
        }
        if (size > kMaxFrame) {
            fail(kNotThisProtocol);
            return false;
        }
        if (evbuffer_get_length(input) < sizeof size + size) {
            return false;
        }
        evbuffer_drain(input, sizeof size);
        hand_over({evbuffer_pullup(input, size), size});
        if (open()) {
            evbuffer_drain(input, size);
        }
        return true;
    }

    /// The bytes stay while the handler runs, even if it closes the link: libevent holds the buffer
    /// during its callback.
    void hand_over(Bytes bytes) {
        if (const auto block = handler_.block ? view_block(bytes) : std::nullopt) {
            handler_.block(*block);
        } else if (frame_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
                   frame_.body_case() != wire::Frame::BODY_NOT_SET) {
            handler_.frame(frame_);
        } else {
            fail(kNotThisProtocol);
        }
    }

    void event(short what) {
        if ((what & BEV_EVENT_CONNECTED) != 0) {
            no_delay(bufferevent_getfd(buffer_.get()));
            last_heard_ = SteadyClock::now();
            if (up_) {
                up_();
            }
        } else if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0) {
            fail(failure(buffer_.get(), what, EVUTIL_SOCKET_ERROR()));
        }
    }

    void fail(const std::string& reason) {
        close();
        handler_.down(reason);
    }

    std::unique_ptr<bufferevent, decltype([](auto* one) { bufferevent_free(one); })> buffer_;
    wire::Frame frame_; ///< reused: protobuf keeps its memory
    Handler handler_;
    std::function<void()> up_;
    Nanoseconds last_heard_ = SteadyClock::now();
};

/// A peer is handed over only when TLS has verified it; until then it is one of a few newcomers
/// with little time.
class KernelListener final : public Listener {
public:
    KernelListener(KernelHost& host, SSL_CTX* tls, const Endpoint& where, Handler handler)
        : host_(host), tls_(tls), handler_(std::move(handler)) {
        sockaddr_storage address{};
        const auto length = where.to_sockaddr(address);
        const auto call = [](evconnlistener* /*l*/, evutil_socket_t fd, sockaddr* from, int size,
                             void* self) {
            sockaddr_storage peer{};
            std::memcpy(&peer, from, static_cast<size_t>(size));
            static_cast<KernelListener*>(self)->accept(FileDescriptor(fd),
                                                       Endpoint::from_sockaddr(peer));
        };
        listener_.reset(evconnlistener_new_bind(
            host.base(), call, this,
            LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC, kListenQueue,
            reinterpret_cast<sockaddr*>(&address), static_cast<int>(length)));
        if (!listener_) {
            throw SystemError(
                fmt::format("listen on {} (is the port in use? choose another)", where.text()));
        }
    }

private:
    struct Newcomer {
        IpAddress address;
        Nanoseconds since = 0;
        std::unique_ptr<KernelLink> link;
    };

    void accept(FileDescriptor socket, const Endpoint& peer) {
        if (newcomers_.size() >= kMostNewcomers) {
            make_room();
        }
        no_delay(socket.get());
        newcomers_.push_back(
            {.address = peer.address,
             .since = SteadyClock::now(),
             .link = std::make_unique<KernelLink>(host_, socket.release(), SSL_new(tls_),
                                                  BUFFEREVENT_SSL_ACCEPTING)});
        KernelLink* const link = newcomers_.back().link.get();
        link->set_up([this, link] { welcome(link); });
        link->set_handler({
            .frame = [link](wire::Frame&) { link->close(); },
            .down = [this,
                     peer](const std::string& reason) { handler_.refused(peer.text(), reason); },
        });
    }

    /// The oldest of the address that has most makes room, so that a single stranger cannot push
    /// out a parent, whose handshake takes a few round trips.
    void make_room() {
        std::unordered_map<IpAddress, size_t> held;
        for (const Newcomer& one : newcomers_) {
            ++held[one.address];
        }
        const IpAddress from = std::ranges::max_element(held, {}, [](const auto& entry) {
                                   return entry.second;
                               })->first;
        handler_.refused(from.text(), "made room for another one");
        newcomers_.erase(std::ranges::find(newcomers_, from, &Newcomer::address));
    }

    /// Nothing of this object may be touched behind the call, which may destroy it.
    void welcome(const KernelLink* link) {
        const auto found = std::ranges::find_if(
            newcomers_, [&](const Newcomer& one) { return one.link.get() == link; });
        std::unique_ptr<Link> verified = std::move(found->link);
        newcomers_.erase(found);
        const auto accepted = handler_.accepted;
        accepted(std::move(verified));
    }

    void tick() {
        const Nanoseconds now = SteadyClock::now();
        std::erase_if(newcomers_, [&](const Newcomer& one) {
            return !one.link->open() || now - one.since > kHandshakeTime;
        });
    }

    KernelHost& host_;
    SSL_CTX* tls_;
    Handler handler_;
    std::vector<Newcomer> newcomers_; ///< the oldest first
    std::unique_ptr<evconnlistener, decltype([](auto* one) { evconnlistener_free(one); })>
        listener_;
    std::unique_ptr<Timer> tick_ = host_.timer(200 * kMillisecond, [this] { tick(); });
};

} // namespace

std::unique_ptr<Link> KernelHost::local(FileDescriptor socket) {
    set_nonblocking(socket.get());
    return std::make_unique<KernelLink>(bufferevent_socket_new(
        base(), socket.release(), BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS));
}

std::unique_ptr<Link> KernelHost::connect(const Endpoint& peer) {
    SSL* const tls = SSL_new(tls_.get());
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), peer.address.text().c_str());
    auto link = std::make_unique<KernelLink>(*this, -1, tls, BUFFEREVENT_SSL_CONNECTING);
    link->connect(peer);
    return link;
}

std::unique_ptr<Listener> KernelHost::listen(const Endpoint& where, Listener::Handler handler) {
    return std::make_unique<KernelListener>(*this, tls_.get(), where, std::move(handler));
}

} // namespace reprise::tree
