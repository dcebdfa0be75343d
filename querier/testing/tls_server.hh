#pragma once
// The server's side of TLS in memory, with a certificate of its own making.

#include "core/base/bytes.hh"

#include <openssl/ssl.h>
#include <openssl/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::querier::testing {

struct ServerOptions {
    std::string name = "server.example";
    long valid_for_s = 3600; ///< negative: expired
    int highest_version = 0;
    std::uint32_t early_data = 0; ///< most bytes it accepts
};

/// A key, a certificate that it signed itself, and connections that share both.
class MemoryTlsServer {
public:
    explicit MemoryTlsServer(const ServerOptions& options);
    ~MemoryTlsServer();
    MemoryTlsServer(const MemoryTlsServer&) = delete;
    MemoryTlsServer& operator=(const MemoryTlsServer&) = delete;

    /// The certificate, which is its own authority.
    [[nodiscard]] const std::string& pem() const { return pem_; }

    /// Early data of later connections is turned down.
    void reject_early_data() { SSL_CTX_set_max_early_data(context_, 0); }

    /// One connection.
    class Session {
    public:
        explicit Session(SSL_CTX* context);

        ~Session();

        Session(const Session&) = delete;
        Session& operator=(const Session&) = delete;

        /// Takes bytes from the client; what the server says to it.
        std::vector<std::uint8_t> feed(Bytes data);

        /// Encrypted bytes for the client.
        std::vector<std::uint8_t> say(Bytes plain);

        /// What the client said so far, early data first.
        [[nodiscard]] const std::vector<std::uint8_t>& heard() const { return heard_; }

        [[nodiscard]] SSL* ssl() { return ssl_; }

    private:
        std::vector<std::uint8_t> drain();
        void read();

        SSL* ssl_;
        BIO* in_;
        BIO* out_;
        bool early_over_ = false;
        std::vector<std::uint8_t> heard_;
    };

    std::unique_ptr<Session> accept() { return std::make_unique<Session>(context_); }

private:
    SSL_CTX* context_;
    std::string pem_;
};

} // namespace reprise::querier::testing
