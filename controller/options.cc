#include "controller/options.hh"

#include "core/base/address.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/numbers.hh"
#include "core/base/prefix.hh"
#include "core/wire/query.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::controller {

namespace {

/// Which queries are played.
void add_selection(Command& app, Options& options) {
    app.add_flag("--all-opcodes", options.all_opcodes,
                 "also send UPDATE and NOTIFY (skipped and counted otherwise)");
    app.add_option(
        "--from", options.from,
        "begin there: seconds from the trace's first query, seconds since the epoch (from "
        "100000000 on) or RFC 3339, e.g. 2016-10-06T13:55:51Z");
    app.add_option("--until", options.until, "end before that time, given like --from");
    app.add_option("--limit", options.limit, "send at most this many queries; 0 = all")
        .show_default();
    app.add_option("--duration-s", options.duration_s, "end the replay after this time; 0 = never")
        .show_default();
    app.add_option("--loop", options.loop,
                   "play the trace this many times; 0 = until --limit or --duration-s")
        .show_default();
    app.add_option("--sample-sources", options.sample_sources,
                   "play a share of the sources with all their queries, e.g. 10%; the same ones in "
                   "every run")
        .show_default();
    app.add_option("--skip-source", options.skip_sources,
                   "leave out the sources of this prefix; repeatable")
        .allow_extra_args(false);
    app.add_flag("--collapse-retransmits", options.collapse_retransmits,
                 "leave out UDP queries with source, port, id and question of one played within "
                 "--timeout-s before");
}

/// When and how they are played.
void add_play(Command& app, Options& options) {
    app.add_option("--speed", options.pace.speed, "play this many times as fast as the trace")
        .show_default();
    app.add_option("--rate", options.pace.rate, "queries a second, evenly spaced; 0 = as the trace")
        .show_default();
    app.add_flag("--fast", options.pace.fast, "as fast as the answers allow (see --in-flight)");
    app.add_flag("--dependent", options.dependent,
                 "a source's next query waits for the end of the one before");
    app.add_option("--hedge", options.hedge_ms,
                   "also send a query to a peer when it has no answer after this many ms");
    app.add_option("--peers", options.peers, "ADDR[:PORT],... that hedged queries go to in turn")
        .delimiter(',')
        .allow_extra_args(false);
    app.add_option("--source-mode", options.source_mode,
                   "what the server sees: ports (the host's address, a port per source), addresses "
                   "(the trace's), mapped (one per source out of the host's prefix), packet (the "
                   "trace's address and port, below the host's network stack)")
        .show_default();
    app.add_flag(
        "--confirm-return-path", options.confirm_return_path,
        "confirm that answers to the trace's addresses come back to the client host or are "
        "dropped by a guard, and cannot leave the testbed; needed with --source-mode "
        "addresses and packet");
}

/// How they travel.
void add_transport(Command& app, Options& options) {
    app.add_option("--transport", options.transport,
                   "how every query travels: trace (as in the trace), udp, tcp, tls (DNS over TLS) "
                   "or stateless-tcp (a TCP connection of its own for each); the trace's own "
                   "connections are kept")
        .show_default();
    app.add_option("--idle-timeout-s", options.idle_timeout_s,
                   "close a TCP or TLS connection that was idle for this time")
        .show_default();
    app.add_option("--queries-per-connection", options.queries_per_connection,
                   "close a connection after this many queries: 1 = a new one each, 0 = no limit")
        .show_default();
    app.add_option("--closer", options.closer,
                   "who closes a connection that is idle, used up or closed in the trace: client, "
                   "or server (the client never does)")
        .show_default();
    app.add_flag("--tcp-fallback", options.tcp_fallback,
                 "after a truncated answer over UDP ask again over TCP");
}

void add_tls(Command& app, DnsTls& tls) {
    app.add_option("--tls-port", tls.port, "port of the server for TLS").show_default();
    app.add_option("--tls-version", tls.version, "TLS version: any, 1.2 or 1.3").show_default();
    app.add_option("--tls-name", tls.name,
                   "name that the server's certificate must have, sent to it as well (SNI); its "
                   "address if left out");
    app.add_option("--tls-ca", tls.authorities,
                   "certificate authorities trusted for the server, PEM; the system's if left out");
    app.add_flag("--no-tls-verify", tls.no_verify, "take any certificate of the server");
    app.add_flag("--tls-resume", tls.resume,
                 "resume the source's last TLS session on its next connection");
    app.add_flag("--tls-early-data", tls.early_data,
                 "send first queries with the resumed handshake (0-RTT); needs --tls-resume");
}

void add_generator(Command& app, Options& options) {
    app.add_option("--generate", options.generate,
                   "NAME[/TYPE]: send this query again and again instead of a trace");
    app.add_option("--generate-sources", options.generate_sources,
                   "from this many source addresses in turn")
        .show_default();
    app.add_flag("--generate-rd", options.generate_rd,
                 "set the RD flag (recursion desired) in the queries of --generate");
}

} // namespace

void add_options(Command& app, Options& options) {
    app.add_option("TRACE", options.trace,
                   "capture to replay: pcap or pcapng, plain or gz, bz2, xz, zst, lz4");
    app.add_option("--run-id", options.run, "name of the run; peers of another run are refused")
        .required();
    app.add_option("--distributor", options.distributors,
                   "[NAME=]HOST:PORT of a distributor; repeat for several client hosts")
        .required()
        .allow_extra_args(false);
    app.add_option("--cert", options.tls.certificate, "own certificate, PEM").required();
    app.add_option("--key", options.tls.key, "its key, PEM").required();
    app.add_option("--ca", options.tls.authority, "certificate authority of the run, PEM")
        .required();
    app.add_option(
           "--server", options.servers,
           "address of the server under test; twice for IPv4 and IPv6. A source is skipped where "
           "the server has no address of its family")
        .required()
        .allow_extra_args(false);
    app.add_option("--server-port", options.server_port, "port of the server").show_default();
    app.add_flag("--allow-public", options.allow_public,
                 "let --server and --peers be public addresses: ask their operators first");
    app.add_option("--results", options.results, "folder for controller.json and sources.csv")
        .show_default();
    app.add_option("--port", options.ports, "DNS port in the trace; repeat for several")
        .allow_extra_args(false)
        .show_default();
    app.add_option("--window-s", options.window_s, "seconds to read ahead of the schedule")
        .show_default();
    app.add_option("--timeout-s", options.timeout_s, "wait this long for an answer").show_default();
    app.add_option("--in-flight", options.in_flight,
                   "most queries waiting for an answer, per querier; at the limit sending waits")
        .show_default();
    app.add_option("--max-lateness-s", options.max_lateness_s,
                   "abort when a querier falls further behind schedule")
        .show_default();
    app.add_option("--late-ms", options.late_ms,
                   "warn of queries sent more than this many ms late; more than 10% of them "
                   "make the run unclean; 0 = neither")
        .show_default();
    app.add_option(
           "--check", options.check,
           "play nothing: look at the options, and with trace also whether there is a query "
           "in TRACE that can be played, and about how many there are")
        .one_of({"options", "trace"});
    app.add_flag("--answers", options.answers, "keep the replies (answers-HOST-N.ra)");
    add_selection(app, options);
    add_play(app, options);
    add_transport(app, options);
    add_tls(app, options.dns_tls);
    add_generator(app, options);
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

std::optional<Transport> transport_of(const std::string& text) {
    if (text == "trace") {
        return std::nullopt;
    }
    for (const Transport each :
         {Transport::kUdp, Transport::kTcp, Transport::kTls, Transport::kStatelessTcp}) {
        if (text == transport_name(each)) {
            return each;
        }
    }
    throw UsageError(
        fmt::format("--transport {}: give trace, udp, tcp, tls or stateless-tcp", text));
}

Servers parse_servers(const std::vector<std::string>& texts, std::uint16_t port) {
    Servers servers;
    for (const std::string& text : texts) {
        const auto address = IpAddress::parse(text);
        if (!address) {
            throw UsageError(fmt::format("--server {}: not an IPv4 or IPv6 address", text));
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

std::vector<Endpoint> parse_hedge_peers(const std::vector<std::string>& texts, std::uint16_t port) {
    std::vector<Endpoint> peers;
    for (const std::string& text : texts) {
        const auto lone = IpAddress::parse(text);
        const auto peer =
            lone ? std::optional(Endpoint{.address = *lone, .port = port}) : Endpoint::parse(text);
        if (!peer || peer->port == 0) {
            throw UsageError(fmt::format(
                "--peers {}: not ADDRESS[:PORT], e.g. 198.18.0.54 or [fd00::54]:53", text));
        }
        peers.push_back(*peer);
    }
    return peers;
}

double parse_share(const std::string& text) {
    const bool percent = text.ends_with('%');
    const size_t digits = text.size() - (percent ? 1 : 0);
    const double value = parse_number<double>(std::string_view(text).substr(0, digits)).value_or(0);
    const double share = percent ? value / 100 : value;
    if (!(share > 0 && share <= 1)) {
        throw UsageError(fmt::format(
            "--sample-sources {}: not a share; give e.g. 10% or 0.1, above 0 and at most 100%",
            text));
    }
    return share;
}

std::vector<Prefix> parse_prefixes(const std::vector<std::string>& texts) {
    std::vector<Prefix> prefixes;
    for (const std::string& text : texts) {
        const auto prefix = Prefix::parse(text);
        if (!prefix) {
            throw UsageError(fmt::format(
                "--skip-source {}: not a prefix; give e.g. 192.0.2.0/24 or 2001:db8::/32", text));
        }
        prefixes.push_back(*prefix);
    }
    return prefixes;
}

} // namespace reprise::controller
