#pragma once
#include "controller/timetable.hh"
#include "core/base/address.hh"
#include "core/base/prefix.hh"
#include "core/tree/tls.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::controller {

/// A distributor to connect to: "[NAME=]HOST:PORT".
struct Peer {
    std::string name; ///< empty: as its Hello says
    Endpoint endpoint;
};

/// How queries of transport TLS travel.
struct DnsTls {
    std::uint16_t port = 853;
    std::string version = "any"; ///< "any", "1.2" or "1.3"
    std::string name;            ///< of the server; empty: its address
    std::string authorities;     ///< path; empty: the system's
    bool no_verify = false;
    bool resume = false;
    bool early_data = false;
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
    bool allow_public = false; ///< of servers and peers
    std::vector<std::uint16_t> ports{53};
    bool all_opcodes = false;
    bool answers = false;
    double window_s = 2;
    double timeout_s = 5;
    double idle_timeout_s = 20;
    std::uint64_t in_flight = 262'144;
    double max_lateness_s = 1;
    double late_ms = 100; ///< 0: nothing counts as late
    Pace pace;
    std::uint64_t loop = 1; ///< times the trace is played; 0: for ever
    std::string from;       ///< TraceTime; empty: the beginning
    std::string until;
    std::uint64_t limit = 0; ///< queries handed out; 0: all
    double duration_s = 0;   ///< 0: to the end
    std::string sample_sources = "100%";
    std::vector<std::string> skip_sources; ///< prefixes
    bool collapse_retransmits = false;
    bool dependent = false;
    double hedge_ms = 0; ///< 0: never
    std::vector<std::string> peers;
    std::string source_mode = "ports";
    bool confirm_return_path = false;
    std::string transport = "trace";          ///< "trace", "udp", "tcp", "tls" or "stateless-tcp"
    std::uint32_t queries_per_connection = 0; ///< 0: no limit
    std::string closer = "client";            ///< or "server": the client never closes first
    bool tcp_fallback = false;
    DnsTls dns_tls;
    std::string generate; ///< "NAME[/TYPE]" instead of a trace
    std::uint32_t generate_sources = 1;
    bool generate_rd = false;
    std::string check; ///< "options" or "trace": look at them and play nothing; empty: play
};

/// The servers by family.
struct Servers {
    std::optional<Endpoint> v4;
    std::optional<Endpoint> v6;
};

/// Adds the options to a command line.
void add_options(Command& app, Options& options);

/// Parses the distributors. Throws UsageError naming the bad one.
std::vector<Peer> parse_peers(const std::vector<std::string>& texts);

/// Parses the servers: at most one of each family, at least one. Throws UsageError.
Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port);

/// Parses the peers that hedged queries go to, "ADDR[:PORT]". Throws UsageError.
std::vector<Endpoint> parse_hedge_peers(const std::vector<std::string>& texts, std::uint16_t port);

/// Parses "10%" or "0.1". Throws UsageError.
double parse_share(const std::string& text);

/// Parses --skip-source. Throws UsageError.
std::vector<Prefix> parse_prefixes(const std::vector<std::string>& texts);

/// The transport of every query; nothing where the trace's is kept. Throws UsageError.
std::optional<Transport> transport_of(const std::string& text);

/// Checks what the parser cannot. Throws UsageError.
void validate(const Options& options);

} // namespace reprise::controller
