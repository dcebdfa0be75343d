#include "controller/replay_options.hh"

#include "controller/authorities.hh"
#include "controller/options.hh"
#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/wire/replay.pb.h"

namespace reprise::controller {
namespace {

Nanoseconds nanoseconds(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

void set_connections(wire::Options& out, const Options& options) {
    out.set_idle_timeout_ns(nanoseconds(options.idle_timeout_s));
    out.set_queries_per_connection(options.queries_per_connection);
    out.set_server_closes(options.closer == "server");
    out.set_tcp_fallback(options.tcp_fallback);
}

void set_tls(wire::Tls& out, const DnsTls& tls) {
    out.set_port(tls.port);
    out.set_version(tls.version);
    out.set_verify(!tls.no_verify);
    out.set_authorities_pem(read_authorities(tls.authorities));
    out.set_name(tls.name);
    out.set_resume(tls.resume);
    out.set_early_data(tls.early_data);
}

void set_hedge(wire::Options& out, const Options& options) {
    out.set_hedge_after_ns(static_cast<Nanoseconds>(options.hedge_ms * 1e6));
    for (const Endpoint& peer : parse_hedge_peers(options.peers, options.server_port)) {
        out.add_hedge_peers(peer.text());
    }
}

} // namespace

wire::Options replay_options(const Options& options, const Servers& servers) {
    wire::Options out;
    out.set_server_v4(servers.v4 ? servers.v4->text() : "");
    out.set_server_v6(servers.v6 ? servers.v6->text() : "");
    out.set_timeout_ns(nanoseconds(options.timeout_s));
    out.set_in_flight(options.in_flight);
    out.set_max_lateness_ns(nanoseconds(options.max_lateness_s));
    out.set_answers(options.answers);
    out.set_source_mode(options.source_mode);
    out.set_fast(options.pace.fast);
    out.set_duration_ns(nanoseconds(options.duration_s));
    out.set_late_ns(nanoseconds(options.late_ms / 1e3));
    out.set_dependent(options.dependent);
    set_hedge(out, options);
    set_connections(out, options);
    set_tls(*out.mutable_tls(), options.dns_tls);
    return out;
}

} // namespace reprise::controller
