#include "core/tree/tls.hh"

#include "core/base/error.hh"

#include <openssl/err.h>
#include <openssl/prov_ssl.h>
#include <openssl/ssl.h>
#include <openssl/types.h>

#include <array>
#include <string>

namespace reprise::tree {
namespace {

void demand(int result, const std::string& attempt) {
    if (result != 1) {
        std::array<char, 256> reason{};
        ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
        throw UsageError(attempt + ": " + reason.data() +
                         "; check the --cert, --key and --ca files");
    }
}

} // namespace

TlsContext tls_context(const TlsFiles& files) {
    TlsContext made(SSL_CTX_new(TLS_method()));
    SSL_CTX* const context = made.get();
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"); // the cheapest of the safe ones
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    demand(SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()),
           "certificate " + files.certificate);
    demand(SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM),
           "key " + files.key);
    demand(SSL_CTX_check_private_key(context), "key " + files.key);
    demand(SSL_CTX_load_verify_locations(context, files.authority.c_str(), nullptr),
           "certificate authority " + files.authority);
    return made;
}

} // namespace reprise::tree
