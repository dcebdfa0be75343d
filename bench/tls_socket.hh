#pragma once
// A TCP socket of the sink's or the floor's, with TLS or without.

#include "core/base/fd.hh"
#include "core/base/openssl.hh"

#include <openssl/ssl.h>
#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace reprise::bench {

/// Why OpenSSL or the system failed just now, in its own words.
std::string failure();

/// Turns an option of a socket on. Throws SystemError.
void set_on(int fd, int level, int option);

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
    explicit TlsSocket(FileDescriptor fd, SSL_CTX* context = nullptr);

    /// From now on early data is read by a server, and written once by a client.
    void use_early_data() { early_ = true; }

    /// Reads what is there into `space`; `got` bytes with kDone only.
    Result read(std::span<std::uint8_t> space, std::size_t& got);

    /// Writes a part of `bytes`; `put` bytes with kDone only.
    Result write(std::span<const std::uint8_t> bytes, std::size_t& put);

    /// True once, when the handshake has come to its end.
    bool take_handshake(Handshake& handshake);

    [[nodiscard]] int fd() const { return fd_.get(); }

    /// Null where TLS is not spoken.
    [[nodiscard]] SSL* tls() const { return tls_.get(); }

private:
    Result read_early(std::span<std::uint8_t> space, std::size_t& got);
    [[nodiscard]] Result result_of(int returned) const;

    FileDescriptor fd_;
    TlsOwner<SSL> tls_;
    bool early_ = false;   ///< early data may still come or go
    bool counted_ = false; ///< the handshake was taken
};

} // namespace reprise::bench
