#include "controller/options.hh"

#include "core/address.hh"
#include "core/error.hh"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::controller {

void add_options(CLI::App& app, Options& options) {
    app.add_option("TRACE", options.trace,
                   "capture to replay: pcap or pcapng, plain or gz, bz2, xz, zst, lz4")
        ->required();
    app.add_option("--run-id", options.run, "name of the run; peers of another run are refused")
        ->required();
    app.add_option("--distributor", options.distributors,
                   "[NAME=]HOST:PORT of a distributor; repeat for several client hosts")
        ->required()
        ->allow_extra_args(false);
    app.add_option("--cert", options.tls.certificate, "own certificate, PEM")->required();
    app.add_option("--key", options.tls.key, "its key, PEM")->required();
    app.add_option("--ca", options.tls.authority, "certificate authority of the run, PEM")
        ->required();
    app.add_option(
           "--server", options.servers,
           "address of the server under test; twice for IPv4 and IPv6. A source is skipped where "
           "the server has no address of its family")
        ->required()
        ->allow_extra_args(false);
    app.add_option("--server-port", options.server_port, "port of the server")
        ->capture_default_str();
    app.add_option("--results", options.results, "folder for controller.json and sources.csv")
        ->capture_default_str();
    app.add_option("--port", options.ports, "DNS port in the trace; repeat for several")
        ->allow_extra_args(false)
        ->capture_default_str();
    app.add_flag("--all-opcodes", options.all_opcodes,
                 "also send UPDATE and NOTIFY (skipped and counted otherwise)");
    app.add_option("--window-s", options.window_s, "trace seconds to read ahead")
        ->capture_default_str();
    app.add_option("--timeout-s", options.timeout_s, "wait so long for an answer")
        ->capture_default_str();
    app.add_option("--idle-timeout-s", options.idle_timeout_s,
                   "close a TCP connection that was idle for so long")
        ->capture_default_str();
    app.add_option("--in-flight", options.in_flight,
                   "most queries waiting for an answer, per querier; at the limit sending waits")
        ->capture_default_str();
    app.add_option("--max-lateness-s", options.max_lateness_s,
                   "abort when a querier falls further behind schedule")
        ->capture_default_str();
    app.add_flag("--answers", options.answers, "keep the replies (answers-HOST-N.ra)");
}

std::vector<Peer> parse_peers(const std::vector<std::string>& texts) {
    std::vector<Peer> peers;
    for (const std::string& text : texts) {
        const size_t equals = text.find('=');
        const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
        const auto endpoint =
            Endpoint::parse(equals == std::string::npos ? text : text.substr(equals + 1));
        if (!endpoint || endpoint->port == 0) {
            throw UsageError(fmt::format(
                "--distributor {}: not [NAME=]ADDRESS:PORT, e.g. client1=192.0.2.1:4853", text));
        }
        peers.push_back({.name = name, .endpoint = *endpoint});
    }
    return peers;
}

Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port) {
    Servers servers;
    for (const std::string& text : texts) {
        const auto address = IpAddress::parse(text);
        if (!address) {
            throw UsageError(fmt::format("--server {}: not an IPv4 or IPv6 address", text));
        }
        if (address->is_public()) {
            throw UsageError(
                fmt::format("--server {}: a public address; replays go to private, loopback or "
                            "benchmark addresses only (198.18.0.0/15, fd00::/8)",
                            text));
        }
        auto& place = address->is_v4() ? servers.v4 : servers.v6;
        if (place) {
            throw UsageError(
                fmt::format("--server {}: only one address of each family can be used", text));
        }
        place = Endpoint{.address = *address, .port = port};
    }
    return servers;
}

void validate(const Options& options) {
    const auto positive = [](double value, const char* name) {
        if (!(value > 0 && value < 1e6)) {
            throw UsageError(fmt::format("{}: must be above 0 and below 1000000 seconds", name));
        }
    };
    positive(options.window_s, "--window-s");
    positive(options.timeout_s, "--timeout-s");
    positive(options.idle_timeout_s, "--idle-timeout-s");
    positive(options.max_lateness_s, "--max-lateness-s");
    if (options.in_flight == 0) {
        throw UsageError("--in-flight: must be at least 1");
    }
    if (options.server_port == 0) {
        throw UsageError("--server-port: must be 1 to 65535");
    }
}

} // namespace reprise::controller
