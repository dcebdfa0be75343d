#include "querier/testing/tls_server.hh"

#include "core/base/bytes.hh"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/obj_mac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/types.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier::testing {
namespace {

X509* self_signed(EVP_PKEY* key, const ServerOptions& options) {
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
    X509_gmtime_adj(X509_getm_notAfter(certificate), options.valid_for_s);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(options.name.c_str()), -1, -1,
                               0);
    X509_set_issuer_name(certificate, name);
    const std::string names = "DNS:" + options.name;
    X509_EXTENSION* extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(certificate, key, EVP_sha256());
    return certificate;
}

std::string pem_of(X509* certificate) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    char* text = nullptr;
    const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &text));
    std::string pem(text, size);
    BIO_free(bio);
    return pem;
}

} // namespace

MemoryTlsServer::MemoryTlsServer(const ServerOptions& options)
    : context_(SSL_CTX_new(TLS_server_method())) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = self_signed(key, options);
    pem_ = pem_of(certificate);
    SSL_CTX_use_certificate(context_, certificate);
    SSL_CTX_use_PrivateKey(context_, key);
    SSL_CTX_set_max_proto_version(context_, options.highest_version);
    SSL_CTX_set_max_early_data(context_, options.early_data);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

MemoryTlsServer::~MemoryTlsServer() { SSL_CTX_free(context_); }

MemoryTlsServer::Session::Session(SSL_CTX* context)
    : ssl_(SSL_new(context)), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
    SSL_set_accept_state(ssl_);
    SSL_set_bio(ssl_, in_, out_);
}

/// In order: otherwise OpenSSL forgets the session.
MemoryTlsServer::Session::~Session() {
    SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(ssl_);
}

void MemoryTlsServer::Session::read() {
    std::array<std::uint8_t, 16384> plain{};
    size_t got = 0;
    ERR_clear_error();
    while (!early_over_) {
        got = 0;
        const int result = SSL_read_early_data(ssl_, plain.data(), plain.size(), &got);
        heard_.insert(heard_.end(), plain.begin(),
                      plain.begin() + static_cast<std::ptrdiff_t>(got));
        early_over_ = result == SSL_READ_EARLY_DATA_FINISH;
        if (result == SSL_READ_EARLY_DATA_ERROR) {
            return;
        }
    }
    while (SSL_read_ex(ssl_, plain.data(), plain.size(), &got) == 1) {
        heard_.insert(heard_.end(), plain.begin(),
                      plain.begin() + static_cast<std::ptrdiff_t>(got));
    }
}

std::vector<std::uint8_t> MemoryTlsServer::Session::drain() {
    std::vector<std::uint8_t> bytes(BIO_ctrl_pending(out_));
    size_t got = 0;
    BIO_read_ex(out_, bytes.data(), bytes.size(), &got);
    bytes.resize(got);
    return bytes;
}

std::vector<std::uint8_t> MemoryTlsServer::Session::feed(Bytes data) {
    size_t put = 0;
    BIO_write_ex(in_, data.data(), data.size(), &put);
    read();
    return drain();
}

std::vector<std::uint8_t> MemoryTlsServer::Session::say(Bytes plain) {
    size_t put = 0;
    SSL_write_ex(ssl_, plain.data(), plain.size(), &put);
    return drain();
}

} // namespace reprise::querier::testing
