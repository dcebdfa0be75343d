#pragma once
// The proxy as a process: what it asks of the host, when it wakes up, how it ends.

#include "proxy/delay/delay_model.hh"
#include "proxy/rewrite/rewrite.hh"

#include <memory>
#include <string>

namespace reprise::proxy {

/// Defaults of all subcommands.
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

} // namespace reprise::proxy
