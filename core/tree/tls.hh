#pragma once
// Mutual TLS 1.3 with a certificate authority made for one run: a peer that it did not sign is
// refused.

#include <openssl/ssl.h>

#include <memory>
#include <string>

namespace reprise::tree {

struct TlsFiles {
    std::string certificate; ///< PEM
    std::string key;         ///< PEM
    std::string authority;   ///< PEM; the only one trusted
};

struct TlsDeleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class TlsContext {
public:
    /// Loads and checks the files. Throws UsageError naming the file.
    explicit TlsContext(const TlsFiles& files);

    /// A new server side session; the caller (a bufferevent) owns it.
    [[nodiscard]] SSL* new_server() const;
    /// A new client side session that demands `address` in the peer's certificate.
    [[nodiscard]] SSL* new_client(const std::string& address) const;

private:
    std::unique_ptr<SSL_CTX, TlsDeleter> context_;
};

/// The oldest error of OpenSSL's queue, as text, and clears the queue.
std::string tls_error();

} // namespace reprise::tree
