#pragma once
// The commands of the proxy as processes: what they ask of the host, when they wake up, how they
// end.

#include "proxy/delay/delay_model.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/stateless/common/options.hh"

#include <memory>
#include <string>

namespace reprise::proxy {

/// Defaults of the subcommands that rewrite or delay.
struct ProcessOptions {
    Side side = Side::kNone;
    std::string tun;         ///< name of the device
    std::string map;         ///< path of a map.tsv; not for Side::kNone
    unsigned resolver = 1;   ///< whose queries; Side::kResolver only
    std::string stats;       ///< path, empty for none
    std::string user;        ///< whose rights to keep, empty for one's own
    bool realtime = false;   ///< SCHED_FIFO
    bool via_kernel = false; ///< every packet goes by the host's routing
};

/// Carries packets until SIGTERM, SIGINT or SIGQUIT; SIGHUP reads the map again. Returns the exit
/// status. Throws UsageError, Error or SystemError, with the statistics written where packets were
/// carried already.
int run_process(const ProcessOptions& options, std::unique_ptr<DelayModel> model);

/// Serves as a front of statelessTCP until SIGTERM, SIGINT or SIGQUIT. Returns the exit status.
/// Throws UsageError, Error or SystemError, with the statistics written where it served already.
int run_stateless(const StatelessOptions& options);

} // namespace reprise::proxy
