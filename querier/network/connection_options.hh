#pragma once
#include "core/base/clock.hh"

#include <cstdint>
#include <optional>
#include <string>

namespace reprise::querier {

/// How queries travel by TLS (RFC 7858).
struct TlsOptions {
    std::uint16_t port = 853;
    int lowest_version = 0;  ///< as OpenSSL numbers them; 0 = TLS 1.2
    int highest_version = 0; ///< 0 = the highest there is
    bool verify = true;      ///< the server's certificate
    std::string authorities; ///< PEM, trusted for it; empty = the system's
    std::string name;        ///< of the server; empty = no SNI, and its address is verified
    std::string groups{};    ///< for the key exchange, as OpenSSL lists them; empty = its own
    bool resume = false;     ///< use the source's last session
    bool early_data = false; ///< and send the queries that wait with it
};

/// How queries travel by TCP and TLS.
struct ConnectionOptions {
    Nanoseconds timeout = 5 * kSecond; ///< of a query
    Nanoseconds idle_timeout = 20 * kSecond;
    std::uint32_t queries_per_connection = 0; ///< 0 = no limit
    bool server_closes = false;               ///< we never close first
    bool kernel_stamps = true;                ///< answers carry the time their segment arrived
    std::optional<TlsOptions> tls;            ///< nothing: TLS queries fail
};

} // namespace reprise::querier
