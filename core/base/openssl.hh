#pragma once
// OpenSSL's objects, owned. Whoever includes this links OpenSSL.

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/types.h>
#include <openssl/x509.h>

#include <memory>

namespace reprise {

struct TlsDeleter {
    void operator()(BIO* bio) const { BIO_free(bio); }

    void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }

    void operator()(SSL* tls) const { SSL_free(tls); }

    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }

    void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }

    void operator()(X509* certificate) const { X509_free(certificate); }
};

template <typename Object> using TlsOwner = std::unique_ptr<Object, TlsDeleter>;

using TlsContext = TlsOwner<SSL_CTX>;
using TlsSession = TlsOwner<SSL_SESSION>;

} // namespace reprise
