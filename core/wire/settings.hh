#pragma once
// How a trace is played, a line a setting. The command line, --set, --options, the Setup message,
// controller.json and, by `reprise-controller --describe`, the tables [replay], [tls] and [socket]
// of experiments are made of fields(). A new setting is a member and its line here, and its use;
// then `python -m cli.experiment.document`.

#include "core/wire/query.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

// Limits of a replay that the controller refuses to pass and the querier relies on.
constexpr std::uint64_t kMostInFlight = 1U << 22U; ///< queries waiting for an answer, per querier
constexpr std::size_t kMostPeers = 15; ///< numbers of UDP paths have four bits; one is the server's

/// What a value may be beyond what its type says.
struct Allowed {
    static constexpr std::string_view kOptional = "optional text";      ///< nothing: the empty text
    static constexpr std::string_view kPath = "path";                   ///< the same, of a file
    static constexpr std::string_view kNumberOrText = "number or text"; ///< in experiments

    double low = 0; ///< of numbers, and of each in a list
    double high = 0;
    std::string_view words{}; ///< "a, b, c": one of these; empty: any
    std::string_view form{};  ///< of a text, one of the above; empty: a text
};

constexpr Allowed between(double low, double high) { return {.low = low, .high = high}; }

constexpr Allowed one_of(std::string_view words) { return {.words = words}; }

/// In the order of the querier's SourceMode; none is a part of another.
inline constexpr std::string_view kSourceModeWords = "ports, addresses, mapped, packet";

/// As in the trace, or one that queriers play.
inline constexpr std::string_view kTransportWords = "trace, udp, tcp, tls, stateless-tcp";

/// How queries travel over TLS (RFC 7858).
struct TlsSettings {
    std::uint16_t port = 853;
    std::string version = "any";
    std::string name;
    std::string ca;
    std::string groups;
    bool verify = true;
    bool resume = false;
    bool early_data = false;

    template <typename Visit> static void fields(Visit visit) {
        using S = TlsSettings;
        visit("port", &S::port, between(1, 65'535), "the server's port for TLS");
        visit("version", &S::version, one_of("any, 1.2, 1.3"), "TLS version");
        visit("name", &S::name, {.form = Allowed::kOptional},
              "name that the server's certificate must have, sent as SNI too. Not given: that of "
              "our own server; for a server at an address its address");
        visit("ca", &S::ca, {.form = Allowed::kPath},
              "file of the certificate authorities trusted for the server, PEM. Not given: our own "
              "server's, or the system's");
        visit("groups", &S::groups, {.form = Allowed::kOptional},
              "groups offered for the key exchange, the preferred one first, with colons between "
              "them, by OpenSSL's names (`X25519:P-256`). Not given: OpenSSL's own choice");
        visit("verify", &S::verify, {}, "refuse a server whose certificate is not good");
        visit("resume", &S::resume, {}, "resume the source's last TLS session");
        visit("early_data", &S::early_data, {},
              "send its first queries with the handshake (0-RTT, TLS 1.3; NSD and BIND do not take "
              "them)");
    }
};

/// The clients' side of TCP.
struct SocketSettings {
    bool quickack = true;

    template <typename Visit> static void fields(Visit visit) {
        visit("quickack", &SocketSettings::quickack, {},
              "clients acknowledge at once an answer that comes while others are awaited on its "
              "connection. With false the kernel does so up to 40 ms later, as for any program");
    }
};

struct Settings {
    std::string source_mode = "ports";
    std::string transport = "trace";
    std::uint32_t queries_per_connection = 0;
    std::string closer = "client";
    bool tcp_fallback = false;
    bool tcp_after_timeout = false;
    double speed = 1;
    double rate = 0;
    bool fast = false;
    std::uint64_t loop = 1;
    std::string from;
    std::string until;
    std::uint64_t limit = 0;
    double duration_s = 0;
    std::string sample_sources = "100%";
    std::vector<std::string> skip_sources;
    bool collapse_retransmits = false;
    bool dependent = false;
    double hedge_ms = 0;
    std::vector<std::string> peers;
    double timeout_s = 5;
    double idle_timeout_s = 20;
    std::uint64_t in_flight = 262'144;
    double max_lateness_s = 1;
    double late_ms = 100;
    double window_s = 2;
    bool answers = false;
    bool all_opcodes = false;
    std::vector<std::uint16_t> ports{53};
    std::string early_us = "auto";
    std::uint32_t spin_us = 0;
    bool realtime = false;
    TlsSettings tls;
    SocketSettings socket;

    // NOLINTNEXTLINE(readability-function-size): a line a setting
    template <typename Visit> static void fields(Visit visit) {
        constexpr double kMany = 0x1p62;
        constexpr double kDay = 86'400;
        using S = Settings;
        visit("source_mode", &S::source_mode, one_of(kSourceModeWords),
              "what the server sees. `ports`: the client host's address, one socket per source. "
              "`addresses`: the trace's source addresses (one client). `mapped`: an address for "
              "each source out of the client's prefix (10.0.0.0/8 shared by the clients, "
              "fd00:6d61:N::/64). `packet`: the trace's addresses and ports, written and read "
              "below the network stack, UDP only (one client, one querier)");
        visit("transport", &S::transport, one_of(kTransportWords),
              "how every query travels (`trace`: as in the trace; `stateless-tcp`: a TCP "
              "connection of its own for each). A query that had a TCP connection in the trace "
              "keeps it: its queries share one connection; all others of a source share another");
        visit("queries_per_connection", &S::queries_per_connection, between(0, 1e6),
              "close a connection after this many queries; 1 = a new one for each; 0 = no limit");
        visit("closer", &S::closer, one_of("client, server"),
              "who closes a connection that is idle, used up or closed in the trace. With `server` "
              "the client never does, for studies of the server's idle timeout");
        visit("tcp_fallback", &S::tcp_fallback, {},
              "ask again over TCP after a truncated answer over UDP (a trace holds its clients' "
              "own retries)");
        visit("tcp_after_timeout", &S::tcp_after_timeout, {},
              "ask again over TCP where no answer over UDP came within `timeout_s`");
        visit("speed", &S::speed, between(0.001, 1e6), "play this many times as fast as the trace");
        visit("rate", &S::rate, between(0, 1e8),
              "queries per second, evenly spaced, whatever the trace's times; 0 = the trace's");
        visit("fast", &S::fast, {}, "as fast as the answers and `in_flight` allow");
        visit("loop", &S::loop, between(0, kMany),
              "play the trace this many times; 0 = until `limit` or `duration_s`");
        visit("from", &S::from, {.form = Allowed::kNumberOrText},
              "begin there: seconds from the trace's first query, seconds since the epoch (from "
              "100000000 on) or RFC 3339 (`2016-10-06T13:55:51.5Z`)");
        visit("until", &S::until, {.form = Allowed::kNumberOrText},
              "end before that time, given like `replay.from`");
        visit("limit", &S::limit, between(0, kMany), "send at most this many queries; 0 = all");
        visit("duration_s", &S::duration_s, between(0, 99'999'999),
              "end the replay after this time; 0 = at the trace's end");
        visit("sample_sources", &S::sample_sources, {.form = Allowed::kNumberOrText},
              "play a share of the sources (`\"10%\"`, 0.1) with all their queries: the same "
              "sources in every run, and a smaller sample is part of a larger");
        visit("skip_sources", &S::skip_sources, {}, "leave out the sources of these prefixes");
        visit("collapse_retransmits", &S::collapse_retransmits, {},
              "leave out UDP queries with source, port, ID and question of one played within "
              "`timeout_s` before");
        visit("dependent", &S::dependent, {},
              "a source's next query waits for the end of the one before");
        visit("hedge_ms", &S::hedge_ms, between(0, 3'600'000),
              "a query without an answer for this time also goes to one of `replay.peers`; the "
              "first answer wins");
        visit("peers", &S::peers, {},
              "`ADDR[:PORT]`, taken in turn; over TLS the port is `tls.port`. On the local "
              "network, out of 198.19.255.0/24 or fd00:198:19:ff::/64: the server listens there "
              "too; where `hierarchy.resolver` lists several, those of each family are the "
              "resolvers after the client's own");
        visit("timeout_s", &S::timeout_s, between(0.001, 3'600),
              "wait at most this long for an answer");
        visit("idle_timeout_s", &S::idle_timeout_s, between(0.001, kDay),
              "close a TCP or TLS connection that was idle for this time");
        visit("in_flight", &S::in_flight, between(1, kMostInFlight),
              "most queries waiting for an answer, per querier; at the limit sending waits");
        visit("max_lateness_s", &S::max_lateness_s, between(0.001, kDay),
              "the run ends early when a querier falls further behind schedule. Where the trace's "
              "time goes back by more (times `speed`), the replay goes on from the time before, "
              "and the steps are counted");
        visit("late_ms", &S::late_ms, between(0, 86'400'000),
              "queries sent more than this after their time are counted and make a warning; over "
              "10 % of them make the run unclean; 0 = neither");
        visit("window_s", &S::window_s, between(0.1, 600), "seconds to read ahead of the schedule");
        visit("answers", &S::answers, {}, "keep the replies (`.ra`) for `reprise compare`");
        visit("all_opcodes", &S::all_opcodes, {},
              "also send UPDATE and NOTIFY (skipped and counted otherwise)");
        visit("ports", &S::ports, between(1, 65'535), "DNS ports of the trace");
        visit("early_us", &S::early_us, {.form = Allowed::kNumberOrText},
              "wake up this many µs (0 to 1000) before a query is due; `\"auto\"` learns it");
        visit("spin_us", &S::spin_us, between(0, 30),
              "wait busily for at most this many µs before a send");
        visit("realtime", &S::realtime, {},
              "queriers run before ordinary processes (SCHED_FIFO, needs root): other work on the "
              "host no longer delays them. Not for loads that keep a core busy: the server on the "
              "same machine would starve");
    }
};

/// Calls visit(table, name, value, allowed, help) for each setting; `S` is Settings, perhaps const.
template <typename S, typename Visit> void each_setting(S& settings, Visit visit) {
    const auto in = [&](std::string_view table, auto& values) {
        return [&visit, table, &values](std::string_view name, auto member, const Allowed& allowed,
                                        std::string_view help) {
            visit(table, name, values.*member, allowed, help);
        };
    };
    Settings::fields(in("replay", settings));
    TlsSettings::fields(in("tls", settings.tls));
    SocketSettings::fields(in("socket", settings.socket));
}

/// Sets "replay.speed" to "2" and so on; lists have commas. Throws UsageError where there is no
/// such setting, or the value is not of its type.
void set(Settings& settings, std::string_view key, const std::string& text);

/// All of them as set() takes them, by their keys.
std::map<std::string, std::string> texts(const Settings& settings);

/// Ranges, and settings that need or exclude others. Throws UsageError.
void check(const Settings& settings);

/// All of them with what they hold: {"source_mode": "ports", ..., "tls": {"port": 853, ...}}.
nlohmann::ordered_json settings_json(const Settings& settings);

/// Table -> name -> type, default, what is allowed, help; for programs in other languages.
nlohmann::ordered_json describe_settings();

/// The names of the transports that queriers play, or of the others.
std::vector<std::string> transport_names(bool played);

/// The transport of every query; nothing where the trace's is kept.
std::optional<Transport> transport_of(const Settings& settings);

/// The peers of hedged queries; `port`: of those that have none. Throws UsageError.
std::vector<Endpoint> peers_of(const Settings& settings, std::uint16_t port);

/// The share of the sources that is played, above 0 and at most 1. Throws UsageError.
double share_of(const Settings& settings);

/// The prefixes whose sources are left out. Throws UsageError.
std::vector<Prefix> skipped_prefixes(const Settings& settings);

} // namespace reprise
