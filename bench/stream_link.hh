#pragma once
// One accepted connection's bytes, over TLS or plain.

#include "core/base/fd.hh"

#include <openssl/ssl.h>
#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace reprise::bench {

struct FreeTls {
    void operator()(SSL* tls) const { SSL_free(tls); }

    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

using TlsContext = std::unique_ptr<SSL_CTX, FreeTls>;

/// How the sink speaks TLS.
struct TlsServerOptions {
    std::string certificate; ///< PEM file; empty: plain TCP
    std::string key;
    std::uint32_t early_data = 0; ///< bytes taken before a handshake's end (0-RTT); 0: none
    std::string keylog;           ///< file that takes the sessions' secrets, for tshark
};

/// A context for `options`; tickets sealed in one process open in every process forked afterwards.
/// Throws UsageError.
TlsContext make_server_context(const TlsServerOptions& options);

/// Why TLS failed just now, in OpenSSL's words.
std::string tls_reason();

/// Owns the socket; it is non-blocking.
class Link {
public:
    enum class Result : std::uint8_t { kDone, kLater, kEnded, kFailed };

    /// What one TLS handshake came to.
    struct Handshake {
        bool resumed;
        bool early_data;
    };

    Link(FileDescriptor fd, SSL_CTX* context, bool early_data);

    /// Reads what is there into `space`; `got` bytes with kDone only.
    Result read(std::span<std::uint8_t> space, std::size_t& got);

    /// Writes a part of `bytes`; `put` bytes with kDone only.
    Result write(std::span<const std::uint8_t> bytes, std::size_t& put);

    /// Says goodbye where TLS does.
    void shut();

    /// True once, when the handshake has come to its end.
    bool take_handshake(Handshake& handshake);

    [[nodiscard]] int fd() const { return fd_.get(); }

    [[nodiscard]] bool is_tls() const { return tls_ != nullptr; }

private:
    Result read_tls(std::span<std::uint8_t> space, std::size_t& got);
    Result read_early(std::span<std::uint8_t> space, std::size_t& got);
    Result result_of(int returned);

    FileDescriptor fd_;
    std::unique_ptr<SSL, FreeTls> tls_;
    bool early_ = false;   ///< early data may still come
    bool counted_ = false; ///< the handshake was taken
};

} // namespace reprise::bench
