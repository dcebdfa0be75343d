#pragma once
#include "core/address.hh"
#include "core/clock.hh"
#include "core/tree/tls.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI { // NOLINT(readability-identifier-naming): the library's own
class App;
}

namespace reprise::controller {

/// A distributor to connect to: "[NAME=]HOST:PORT".
struct Peer {
    std::string name; ///< empty: as its Hello says
    Endpoint endpoint;
};

/// Defaults of the program; times in seconds as on the command line.
struct Options {
    std::string trace;
    std::string run;
    std::vector<std::string> distributors;
    tree::TlsFiles tls;
    std::string results = ".";
    std::vector<std::string> servers;
    std::uint16_t server_port = 53;
    std::vector<std::uint16_t> ports{53};
    bool all_opcodes = false;
    bool answers = false;
    double window_s = 2;
    double timeout_s = 5;
    double idle_timeout_s = 20;
    std::uint64_t in_flight = 262'144;
    double max_lateness_s = 1;
};

/// The servers by family.
struct Servers {
    std::optional<Endpoint> v4;
    std::optional<Endpoint> v6;
};

/// Adds the options to a command line.
void add_options(CLI::App& app, Options& options);

/// Parses the distributors. Throws UsageError naming the bad one.
std::vector<Peer> parse_peers(const std::vector<std::string>& texts);

/// Parses the servers: at most one of each family, at least one. Throws UsageError.
Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port);

/// Checks what the parser cannot. Throws UsageError.
void validate(const Options& options);

} // namespace reprise::controller
