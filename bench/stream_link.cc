#include "bench/stream_link.hh"

#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/tls1.h>
#include <openssl/types.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <utility>

namespace reprise::bench {
namespace {

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

void keep_keys(SSL_CTX* context, const std::string& path) {
    keylog_file = std::fopen(path.c_str(), "ae");
    if (keylog_file == nullptr) {
        throw UsageError(fmt::format("--keylog {}: cannot be written; choose another place", path));
    }
    SSL_CTX_set_keylog_callback(context, write_keylog);
}

void load_identity(SSL_CTX* context, const TlsServerOptions& options) {
    if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1) {
        throw UsageError(fmt::format("--cert {} --key {}: {}; give PEM files that belong together",
                                     options.certificate, options.key, tls_reason()));
    }
}

} // namespace

std::string tls_reason() {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason == nullptr ? "no reason given" : reason;
}

TlsContext make_server_context(const TlsServerOptions& options) {
    TlsContext context(SSL_CTX_new(TLS_server_method()));
    load_identity(context.get(), options);
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
        keep_keys(context.get(), options.keylog);
    }
    return context;
}

Link::Link(FileDescriptor fd, SSL_CTX* context, bool early_data) : fd_(std::move(fd)) {
    if (context == nullptr) {
        return;
    }
    tls_.reset(SSL_new(context));
    if (!tls_ || SSL_set_fd(tls_.get(), fd_.get()) != 1) {
        throw Error(fmt::format("no memory for another TLS connection: {}", tls_reason()));
    }
    SSL_set_accept_state(tls_.get());
    early_ = early_data;
}

Link::Result Link::read(std::span<std::uint8_t> space, std::size_t& got) {
    if (tls_) {
        return read_tls(space, got);
    }
    const ssize_t count = ::recv(fd_.get(), space.data(), space.size(), 0);
    if (count > 0) {
        got = static_cast<std::size_t>(count);
        return Result::kDone;
    }
    if (count == 0) {
        return Result::kEnded;
    }
    return errno == EAGAIN ? Result::kLater : Result::kFailed;
}

Link::Result Link::read_tls(std::span<std::uint8_t> space, std::size_t& got) {
    if (early_) {
        if (const Result result = read_early(space, got); early_ || result == Result::kFailed) {
            return result;
        }
    }
    const int returned = SSL_read_ex(tls_.get(), space.data(), space.size(), &got);
    return returned > 0 ? Result::kDone : result_of(returned);
}

/// Clears `early_` when no more of it can come.
Link::Result Link::read_early(std::span<std::uint8_t> space, std::size_t& got) {
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

Link::Result Link::result_of(int returned) {
    switch (SSL_get_error(tls_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return Result::kLater;
    case SSL_ERROR_ZERO_RETURN:
        return Result::kEnded;
    default: {
        // A client that closes without TLS's goodbye has ended well enough.
        const bool bare_end =
            ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        ERR_clear_error();
        return bare_end && SSL_is_init_finished(tls_.get()) == 1 ? Result::kEnded : Result::kFailed;
    }
    }
}

Link::Result Link::write(std::span<const std::uint8_t> bytes, std::size_t& put) {
    if (tls_) {
        const int returned =
            early_ ? SSL_write_early_data(tls_.get(), bytes.data(), bytes.size(), &put)
                   : SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &put);
        return returned > 0 ? Result::kDone : result_of(returned);
    }
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
        put = static_cast<std::size_t>(count);
        return Result::kDone;
    }
    return errno == EAGAIN ? Result::kLater : Result::kFailed;
}

void Link::shut() {
    if (tls_ && SSL_is_init_finished(tls_.get()) == 1) {
        SSL_shutdown(tls_.get());
        ERR_clear_error();
    }
}

bool Link::take_handshake(Handshake& handshake) {
    if (!tls_ || counted_ || SSL_is_init_finished(tls_.get()) != 1) {
        return false;
    }
    counted_ = true;
    handshake = {.resumed = SSL_session_reused(tls_.get()) == 1,
                 .early_data = SSL_get_early_data_status(tls_.get()) == SSL_EARLY_DATA_ACCEPTED};
    return true;
}

} // namespace reprise::bench
