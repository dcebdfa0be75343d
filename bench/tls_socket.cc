#include "bench/tls_socket.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <utility>

namespace reprise::bench {

std::string failure() {
    const char* const reason = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    return reason != nullptr ? reason : std::strerror(errno);
}

void set_on(int fd, int level, int option) {
    const int on = 1;
    check(setsockopt(fd, level, option, &on, sizeof on), "setsockopt");
}

TlsSocket::TlsSocket(FileDescriptor fd, SSL_CTX* context) : fd_(std::move(fd)) {
    if (context == nullptr) {
        return;
    }
    tls_.reset(SSL_new(context));
    if (!tls_ || SSL_set_fd(tls_.get(), fd_.get()) != 1) {
        throw Error(fmt::format("no memory for another TLS connection: {}", failure()));
    }
    if (SSL_is_server(tls_.get()) == 1) {
        SSL_set_accept_state(tls_.get());
    } else {
        SSL_set_connect_state(tls_.get());
    }
}

TlsSocket::Result TlsSocket::read(std::span<std::uint8_t> space, std::size_t& got) {
    if (!tls_) {
        const ssize_t count = ::recv(fd_.get(), space.data(), space.size(), 0);
        if (count <= 0) {
            return count == 0 ? Result::kEnded : errno == EAGAIN ? Result::kLater : Result::kFailed;
        }
        got = static_cast<std::size_t>(count);
        return Result::kDone;
    }
    ERR_clear_error();
    if (early_) {
        if (const Result result = read_early(space, got); early_ || result == Result::kFailed) {
            return result;
        }
    }
    // SSL_read_ex alone would take the answer to early data before the handshake's end.
    int returned = SSL_do_handshake(tls_.get());
    if (returned > 0) {
        returned = SSL_read_ex(tls_.get(), space.data(), space.size(), &got);
    }
    return returned > 0 ? Result::kDone : result_of(returned);
}

/// Clears `early_` when no more of it can come.
TlsSocket::Result TlsSocket::read_early(std::span<std::uint8_t> space, std::size_t& got) {
    switch (SSL_read_early_data(tls_.get(), space.data(), space.size(), &got)) {
    case SSL_READ_EARLY_DATA_SUCCESS:
        return Result::kDone;
    case SSL_READ_EARLY_DATA_FINISH:
        early_ = false;
        return Result::kLater;
    default:
        return result_of(0);
    }
}

TlsSocket::Result TlsSocket::write(std::span<const std::uint8_t> bytes, std::size_t& put) {
    if (!tls_) {
        const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count < 0) {
            return errno == EAGAIN ? Result::kLater : Result::kFailed;
        }
        put = static_cast<std::size_t>(count);
        return Result::kDone;
    }
    ERR_clear_error();
    const int returned = early_ ? SSL_write_early_data(tls_.get(), bytes.data(), bytes.size(), &put)
                                : SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &put);
    if (returned <= 0) {
        return result_of(returned);
    }
    early_ = early_ && SSL_is_server(tls_.get()) == 1;
    return Result::kDone;
}

TlsSocket::Result TlsSocket::result_of(int returned) const {
    switch (SSL_get_error(tls_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return Result::kLater;
    case SSL_ERROR_ZERO_RETURN:
        return Result::kEnded;
    default: {
        // Whoever closes without TLS's goodbye has ended well enough.
        const bool bare = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        return bare && SSL_is_init_finished(tls_.get()) == 1 ? Result::kEnded : Result::kFailed;
    }
    }
}

bool TlsSocket::take_handshake(Handshake& handshake) {
    if (!tls_ || counted_ || SSL_is_init_finished(tls_.get()) != 1) {
        return false;
    }
    counted_ = true;
    handshake = {.resumed = SSL_session_reused(tls_.get()) == 1,
                 .early_data = SSL_get_early_data_status(tls_.get()) == SSL_EARLY_DATA_ACCEPTED};
    return true;
}

} // namespace reprise::bench
