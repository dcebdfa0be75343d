#include "querier/connection/tls_connection.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/base/openssl.hh"
#include "querier/carrier/replay_options.hh"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/prov_ssl.h>
#include <openssl/ssl.h>
#include <openssl/tls1.h>
#include <openssl/types.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>

namespace reprise::querier {

TlsSession TlsSessions::remove(BySource::iterator one) {
    TlsSession session = std::move(one->second->session);
    entries_.erase(one->second);
    by_source_.erase(one);
    return session;
}

void TlsSessions::store(std::uint64_t source, TlsSession session) {
    if (by_source_.count(source) == kMostOfASource) {
        remove(by_source_.lower_bound(source));
    } else if (entries_.size() >= limit_) { // the oldest of all is the oldest of its source
        remove(by_source_.lower_bound(entries_.front().source));
    }
    entries_.push_back({.source = source, .session = std::move(session)});
    by_source_.emplace(source, std::prev(entries_.end()));
}

TlsSession TlsSessions::take(std::uint64_t source) {
    const auto [first, last] = by_source_.equal_range(source);
    return first == last ? TlsSession{} : remove(std::prev(last));
}

namespace {

/// A session with the server's certificate takes a few kilobytes.
constexpr size_t kMostSessions = 32768;
/// The largest plaintext of a record that a server may send.
constexpr size_t kLargestRecord = 16384;
/// The largest of ours: OpenSSL keeps a buffer of this size for each connection, and few queries
/// are larger.
constexpr long kLargestSent = 1024;
/// Bounds on what a server can make us keep.
constexpr size_t kLargestTicket = 8192;
constexpr long kLargestChain = 32768;

std::string first_error() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
    return text == nullptr ? "no detail" : text;
}

void demand(bool good, const char* what) {
    if (!good) {
        throw Error(fmt::format("TLS: {}: {}", what, first_error()));
    }
}

void trust(SSL_CTX* context, const std::string& pem) {
    const TlsOwner<BIO> bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    unsigned count = 0;
    while (true) {
        const TlsOwner<X509> one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        if (!one) {
            break;
        }
        demand(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), one.get()) == 1,
               "trusted certificate");
        ++count;
    }
    demand(count > 0, "the file of tls.ca holds no certificate");
    ERR_clear_error(); // the end of the text is one
}

} // namespace

// The BIO

BIO_METHOD* TlsConnection::make_method() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "reprise");
    demand(method != nullptr, "BIO_meth_new");
    BIO_meth_set_create(method, [](BIO* bio) {
        BIO_set_init(bio, 1);
        return 1;
    });
    BIO_meth_set_read_ex(method, [](BIO* bio, char* to, size_t most, size_t* got) {
        auto& wires = *static_cast<Wires*>(BIO_get_data(bio));
        BIO_clear_retry_flags(bio);
        *got = std::min(most, wires.in.size());
        if (*got == 0) {
            BIO_set_retry_read(bio);
            return 0;
        }
        std::copy_n(wires.in.data(), *got, to);
        wires.in = wires.in.subspan(*got);
        return 1;
    });
    BIO_meth_set_write_ex(method, [](BIO* bio, const char* from, size_t size, size_t* put) {
        auto& wires = *static_cast<Wires*>(BIO_get_data(bio));
        wires.out->insert(wires.out->end(), from, from + size);
        *put = size;
        return 1;
    });
    BIO_meth_set_ctrl(method, [](BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
        return command == BIO_CTRL_FLUSH ? 1L : 0L;
    });
    return method;
}

// What connections share

TlsClient::TlsClient(const ReplayOptions& options)
    : options_(options.tls), context_(SSL_CTX_new(TLS_client_method())),
      method_(TlsConnection::make_method()), sessions_(kMostSessions), plain_(kLargestRecord) {
    demand(context_ != nullptr, "SSL_CTX_new");
    SSL_CTX* context = context_.get();
    const int lowest = options_.version == "1.3" ? TLS1_3_VERSION : TLS1_2_VERSION;
    const int highest = options_.version == "any" ? 0 : lowest;
    demand(SSL_CTX_set_min_proto_version(context, lowest) == 1 &&
               SSL_CTX_set_max_proto_version(context, highest) == 1,
           "protocol version");
    demand(options_.groups.empty() ||
               SSL_CTX_set1_groups_list(context, options_.groups.c_str()) == 1,
           "tls.groups has an unknown group");
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); // an idle one holds none to read into
    SSL_CTX_set_max_send_fragment(context, kLargestSent);
    SSL_CTX_set_max_cert_list(context, kLargestChain);
    constexpr std::array<unsigned char, 4> kAlpn{3, 'd', 'o', 't'};
    demand(SSL_CTX_set_alpn_protos(context, kAlpn.data(), kAlpn.size()) == 0, "ALPN dot");
    SSL_CTX_set_verify(context, options_.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    if (!options.authorities.empty()) {
        trust(context, options.authorities);
    } else if (options_.verify) {
        demand(SSL_CTX_set_default_verify_paths(context) == 1, "the system's certificates");
    }
    if (options_.resume) {
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(context, take_session);
    } else {
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    }
}

/// A ticket came.
int TlsClient::take_session(SSL* ssl, SSL_SESSION* session) {
    const unsigned char* ticket = nullptr;
    size_t size = 0;
    SSL_SESSION_get0_ticket(session, &ticket, &size);
    if (size > kLargestTicket) {
        return 0; // not ours
    }
    auto& connection = *static_cast<TlsConnection*>(SSL_get_app_data(ssl));
    connection.client_.sessions_.store(connection.source_, TlsSession(session));
    return 1;
}

// One connection

TlsConnection::TlsConnection(TlsClient& client, std::uint64_t source, const Endpoint& server)
    : client_(client), source_(source), ssl_(SSL_new(client.context_.get())) {
    demand(ssl_ != nullptr, "SSL_new");
    wires_.out = &client.out_;
    SSL* ssl = ssl_.get();
    SSL_set_app_data(ssl, this);
    SSL_set_connect_state(ssl);
    BIO* bio = BIO_new(client.method_.get());
    demand(bio != nullptr, "BIO_new");
    BIO_set_data(bio, &wires_);
    SSL_set_bio(ssl, bio, bio);
    const std::string& name = client.options_.name;
    if (!name.empty()) {
        std::string writable = name; // as SSL_set_tlsext_host_name, without its cast
        SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, writable.data());
        SSL_set1_host(ssl, name.c_str());
    } else if (client.options_.verify) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), server.address.text().c_str());
    }
    const TlsSession session = client.options_.resume ? client.sessions_.take(source) : nullptr;
    if (session && SSL_set_session(ssl, session.get()) == 1 && client.options_.early_data) {
        early_room_ = SSL_SESSION_get_max_early_data(session.get());
    }
}

TlsConnection::~TlsConnection() {
    // Without this OpenSSL takes the session for a broken one, and forgets that it may be resumed.
    SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

TlsConnection::Result TlsConnection::judge(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
        return Result::kMore;
    case SSL_ERROR_ZERO_RETURN:
        return Result::kClosed;
    default:
        explain();
        return Result::kFailed;
    }
}

/// A certificate that was refused says more than the alert that follows from it.
void TlsConnection::explain() {
    const long verified = SSL_get_verify_result(ssl_.get());
    if (client_.options_.verify && verified != X509_V_OK) {
        reason_ = X509_verify_cert_error_string(verified);
        ERR_clear_error();
    } else {
        reason_ = first_error();
    }
}

TlsConnection::Result TlsConnection::handshake() {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    if (result != 1) {
        return judge(result);
    }
    if (client_.options_.resume && SSL_version(ssl_.get()) < TLS1_3_VERSION) {
        // A session of TLS 1.2 may be used again, and no new ticket need come.
        client_.sessions_.store(source_, TlsSession(SSL_get1_session(ssl_.get())));
    }
    return Result::kDone;
}

bool TlsConnection::seal_early(Bytes plain) {
    size_t written = 0;
    ERR_clear_error();
    if (plain.size() > early_room_ ||
        SSL_write_early_data(ssl_.get(), plain.data(), plain.size(), &written) != 1) {
        early_room_ = 0;
        return false;
    }
    early_room_ -= plain.size();
    early_sent_ = true;
    return true;
}

bool TlsConnection::seal(Bytes plain) {
    size_t written = 0;
    ERR_clear_error();
    if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) == 1) {
        return true;
    }
    explain();
    return false;
}

TlsConnection::Result TlsConnection::read(std::span<std::uint8_t>& plain) {
    size_t got = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), client_.plain_.data(), client_.plain_.size(), &got);
    plain = {client_.plain_.data(), got};
    return result == 1 ? Result::kDone : judge(result);
}

void TlsConnection::close() {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
}

bool TlsConnection::resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

bool TlsConnection::early_accepted() const {
    return early_sent_ && SSL_get_early_data_status(ssl_.get()) == SSL_EARLY_DATA_ACCEPTED;
}

} // namespace reprise::querier
