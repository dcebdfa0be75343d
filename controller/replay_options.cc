#include "controller/replay_options.hh"

#include "controller/authorities.hh"
#include "controller/options.hh"
#include "core/wire/replay.pb.h"
#include "core/wire/settings.hh"

namespace reprise::controller {

wire::Options replay_options(const Options& options, const Servers& servers) {
    wire::Options out;
    out.set_server_v4(servers.v4 ? servers.v4->text() : "");
    out.set_server_v6(servers.v6 ? servers.v6->text() : "");
    out.set_authorities_pem(read_authorities(options.replay.tls.ca));
    for (const auto& [key, text] : texts(options.replay)) {
        (*out.mutable_settings())[key] = text;
    }
    return out;
}

} // namespace reprise::controller
