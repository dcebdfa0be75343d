#include "core/tree/link.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/tree/block_frame.hh"
#include "core/tree/event_loop.hh"
#include "core/tree/tls.hh"
#include "core/wire/frame.hh"
#include "core/wire/replay.pb.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/listener.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <netinet/tcp.h>
#include <optional>
#include <span>
#include <string>
#include <sys/socket.h>
#include <utility>

namespace reprise::tree {
namespace {

constexpr size_t kReadPortion = 256UL << 10U;
constexpr size_t kTlsRecord = 16UL << 10U;
constexpr size_t kReadPiece = 7 * kTlsRecord; ///< below malloc's threshold for mmap()
/// Below so many bytes a copy is cheaper than a reference.
constexpr size_t kCopyBelow = 4096;
constexpr int kListenQueue = 128;
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

} // namespace

void Link::BufferDeleter::operator()(bufferevent* b) const { bufferevent_free(b); }

Link::Link(const Clock& clock, bufferevent* buffer) : clock_(clock), buffer_(buffer) {
    if (buffer == nullptr) {
        throw Error("libevent: no bufferevent; out of memory?");
    }
    bufferevent_set_max_single_read(buffer, kReadPortion);
    bufferevent_set_max_single_write(buffer, kReadPortion);
    bufferevent_setcb(buffer, on_read, nullptr, on_event, this);
}

Link::~Link() = default;

std::unique_ptr<Link> Link::connect(const EventLoop& loop, const TlsContext& tls,
                                    const Endpoint& peer) {
    bufferevent* b = bufferevent_openssl_socket_new(
        loop.base(), -1, tls.new_client(peer.address.text()), BUFFEREVENT_SSL_CONNECTING,
        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    std::unique_ptr<Link> link(new Link(loop.clock(), b));
    bufferevent_openssl_set_allow_dirty_shutdown(b, 1);
    sockaddr_storage address{};
    const socklen_t length = peer.to_sockaddr(address);
    bufferevent_socket_connect(b, reinterpret_cast<sockaddr*>(&address), static_cast<int>(length));
    link->enable();
    return link;
}

std::unique_ptr<Link> Link::accept(const EventLoop& loop, const TlsContext& tls,
                                   FileDescriptor socket) {
    no_delay(socket.get());
    bufferevent* b = bufferevent_openssl_socket_new(
        loop.base(), socket.release(), tls.new_server(), BUFFEREVENT_SSL_ACCEPTING,
        BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
    std::unique_ptr<Link> link(new Link(loop.clock(), b));
    bufferevent_openssl_set_allow_dirty_shutdown(b, 1);
    link->enable();
    return link;
}

std::unique_ptr<Link> Link::local(const EventLoop& loop, FileDescriptor socket) {
    set_nonblocking(socket.get());
    std::unique_ptr<Link> link(new Link(
        loop.clock(), bufferevent_socket_new(loop.base(), socket.release(),
                                             BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS)));
    link->enable();
    return link;
}

void Link::enable() { bufferevent_enable(buffer_.get(), EV_READ | EV_WRITE); }

void Link::send(const wire::Frame& frame) {
    if (open()) {
        const std::string bytes = encode_frame(frame);
        bufferevent_write(buffer_.get(), bytes.data(), bytes.size());
    }
}

void Link::send(Outgoing block) {
    if (!open()) {
        return;
    }
    const Bytes bytes = block.view();
    if (bytes.size() < kCopyBelow) {
        bufferevent_write(buffer_.get(), bytes.data(), bytes.size());
        return;
    }
    auto owner =
        std::make_unique<Outgoing>(std::move(block)); // moving a long string keeps its bytes
    const Bytes kept = owner->view();
    evbuffer_add_reference(
        bufferevent_get_output(buffer_.get()), kept.data(), kept.size(),
        [](const void*, size_t, void* extra) {
            const std::unique_ptr<Outgoing> done(static_cast<Outgoing*>(extra));
        },
        owner.release());
}

void Link::close() { buffer_.reset(); }

size_t Link::unsent() const {
    return open() ? evbuffer_get_length(bufferevent_get_output(buffer_.get())) : 0;
}

void Link::read() {
    last_heard_ = clock_.now();
    const std::string trouble = read_on();
    while (open() && read_frame()) {
    }
    if (open() && !trouble.empty()) {
        fail(trouble);
    }
}

/// libevent takes one TLS record (16 KiB) from the socket for each turn of its loop, which costs
/// three more system calls. What else is there is taken here, into pieces large enough that few
/// blocks must be copied to lie in one. Returns why there will be no more, or nothing.
std::string Link::read_on() {
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
bool Link::read_frame() {
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
void Link::hand_over(Bytes bytes) {
    if (const auto block = handler_.block ? view_block(bytes) : std::nullopt) {
        handler_.block(*block);
    } else if (frame_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
               frame_.body_case() != wire::Frame::BODY_NOT_SET) {
        handler_.frame(frame_);
    } else {
        fail(kNotThisProtocol);
    }
}

void Link::event(short what) {
    if ((what & BEV_EVENT_CONNECTED) != 0) {
        no_delay(bufferevent_getfd(buffer_.get()));
        last_heard_ = clock_.now();
        if (handler_.up) {
            handler_.up();
        }
    } else if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) != 0) {
        fail(failure(buffer_.get(), what, EVUTIL_SOCKET_ERROR()));
    }
}

void Link::fail(const std::string& reason) {
    close();
    if (handler_.down) {
        handler_.down(reason);
    }
}

void Link::on_read(bufferevent* /*b*/, void* self) { static_cast<Link*>(self)->read(); }

void Link::on_event(bufferevent* /*b*/, short what, void* self) {
    static_cast<Link*>(self)->event(what);
}

void Listener::ListenerDeleter::operator()(evconnlistener* l) const { evconnlistener_free(l); }

Listener::Listener(const EventLoop& loop, const Endpoint& where, Accepted accepted)
    : accepted_(std::move(accepted)) {
    sockaddr_storage address{};
    const socklen_t length = where.to_sockaddr(address);
    const auto call = [](evconnlistener* /*l*/, evutil_socket_t fd, sockaddr* from, int size,
                         void* self) {
        sockaddr_storage peer{};
        std::memcpy(&peer, from, static_cast<size_t>(size));
        static_cast<Listener*>(self)->accepted_(FileDescriptor(fd), Endpoint::from_sockaddr(peer));
    };
    listener_.reset(evconnlistener_new_bind(
        loop.base(), call, this, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC,
        kListenQueue, reinterpret_cast<sockaddr*>(&address), static_cast<int>(length)));
    if (!listener_) {
        throw SystemError(
            fmt::format("listen on {} (is the port in use? choose another)", where.text()));
    }
}

Listener::~Listener() = default;

Endpoint Listener::endpoint() const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    check(getsockname(evconnlistener_get_fd(listener_.get()), reinterpret_cast<sockaddr*>(&address),
                      &length),
          "getsockname");
    return Endpoint::from_sockaddr(address);
}

} // namespace reprise::tree
