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

using TlsContext = std::unique_ptr<SSL_CTX, TlsDeleter>;

/// Loads and checks the files. Throws UsageError naming the file.
TlsContext tls_context(const TlsFiles& files);

} // namespace reprise::tree
