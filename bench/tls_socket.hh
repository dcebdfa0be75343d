#pragma once
// A TCP socket of the sink's or the floor's, with TLS or without.

#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/openssl.hh"

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

/// Why OpenSSL or the system failed just now, in its own words.
inline std::string failure() {
    const char* const reason = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    return reason != nullptr ? reason : std::strerror(errno);
}

/// Turns an option of a socket on. Throws SystemError.
inline void set_on(int fd, int level, int option) {
    const int on = 1;
    check(setsockopt(fd, level, option, &on, sizeof on), "setsockopt");
}

/// Owns the socket, which is non-blocking. A failed call leaves its reason for failure().
class TlsSocket {
public:
    enum class Result : std::uint8_t { kDone, kLater, kEnded, kFailed };

    struct Handshake {
        bool resumed = false;
        bool early_data = false; ///< the server took some
    };

    TlsSocket() = default;

    /// With a context, which is a server's or a client's, TLS is spoken. Throws Error.
    explicit TlsSocket(FileDescriptor fd, SSL_CTX* context = nullptr) : fd_(std::move(fd)) {
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

    /// From now on early data is read by a server, and written once by a client.
    void use_early_data() { early_ = true; }

    /// Reads what is there into `space`; `got` bytes with kDone only.
    Result read(std::span<std::uint8_t> space, std::size_t& got) {
        if (!tls_) {
            return result_of_call(::recv(fd_.get(), space.data(), space.size(), 0), got);
        }
        ERR_clear_error();
        if (early_) {
            const int state = SSL_read_early_data(tls_.get(), space.data(), space.size(), &got);
            if (state != SSL_READ_EARLY_DATA_FINISH) {
                return state == SSL_READ_EARLY_DATA_SUCCESS ? Result::kDone : result_of(0);
            }
            early_ = false; // no more of it can come
        }
        // SSL_read_ex alone would take the answer to early data before the handshake's end.
        int returned = SSL_do_handshake(tls_.get());
        if (returned > 0) {
            returned = SSL_read_ex(tls_.get(), space.data(), space.size(), &got);
        }
        return returned > 0 ? Result::kDone : result_of(returned);
    }

    /// Writes a part of `bytes`, which are some; `put` bytes with kDone only.
    Result write(std::span<const std::uint8_t> bytes, std::size_t& put) {
        if (!tls_) {
            return result_of_call(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), put);
        }
        ERR_clear_error();
        const int returned =
            early_ ? SSL_write_early_data(tls_.get(), bytes.data(), bytes.size(), &put)
                   : SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &put);
        if (returned <= 0) {
            return result_of(returned);
        }
        early_ = early_ && SSL_is_server(tls_.get()) == 1;
        return Result::kDone;
    }

    /// True once, when the handshake has come to its end.
    bool take_handshake(Handshake& handshake) {
        if (!tls_ || counted_ || SSL_is_init_finished(tls_.get()) != 1) {
            return false;
        }
        counted_ = true;
        handshake = {.resumed = SSL_session_reused(tls_.get()) == 1,
                     .early_data =
                         SSL_get_early_data_status(tls_.get()) == SSL_EARLY_DATA_ACCEPTED};
        return true;
    }

    [[nodiscard]] int fd() const { return fd_.get(); }

    /// Null where TLS is not spoken.
    [[nodiscard]] SSL* tls() const { return tls_.get(); }

private:
    /// Of recv or send.
    static Result result_of_call(ssize_t returned, std::size_t& size) {
        if (returned <= 0) {
            return returned == 0     ? Result::kEnded
                   : errno == EAGAIN ? Result::kLater
                                     : Result::kFailed;
        }
        size = static_cast<std::size_t>(returned);
        return Result::kDone;
    }

    [[nodiscard]] Result result_of(int returned) const {
        switch (SSL_get_error(tls_.get(), returned)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE:
            return Result::kLater;
        case SSL_ERROR_ZERO_RETURN:
            return Result::kEnded;
        default: {
            // Whoever closes without TLS's goodbye has ended well enough.
            const bool bare =
                ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
            return bare && SSL_is_init_finished(tls_.get()) == 1 ? Result::kEnded : Result::kFailed;
        }
        }
    }

    FileDescriptor fd_;
    TlsOwner<SSL> tls_;
    bool early_ = false;   ///< early data may still come or go
    bool counted_ = false; ///< the handshake was taken
};

} // namespace reprise::bench
