#pragma once
// What `reprise-proxy stateless` is told.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::proxy {

/// Who speaks TCP to the clients and UDP to the server.
enum class FrontKind : std::uint8_t {
    kReference, ///< a process on a TUN device, as Huston's DNS proxy
    kBpf,       ///< BPF programs on the interface
};

/// Defaults of both fronts.
struct StatelessOptions {
    FrontKind front = FrontKind::kReference;
    std::vector<std::string> interfaces; ///< toward the clients; of bpf one
    std::uint16_t port = 53;
    unsigned timeout_ms = 3'000;    ///< how long an entry for a query without an answer is kept
    unsigned loglevel = 1;          ///< 0 nothing, 1 warnings, 2 counts each second, 3 each packet
    bool undo = false;              ///< only undoes what a killed front has left
    std::string stats;              ///< path, empty for none
    bool early_ack = true;          ///< a query is acknowledged at once; bpf: false where not given
    bool axfr_detect = false;       ///< zone transfers get their own way; bpf: true where not given
    std::uint32_t truncate_udp = 0; ///< bytes of a UDP reply, 0 for no limit

    // Of the front `reference`.
    std::string tun = "stateless0";
    bool active = false;
    bool fin_last = false;

    // Of the front `bpf`.
    bool promote = true;
    std::uint32_t entries = 65'536;
    unsigned rotate_s = 600;
    bool timed = false;
};

/// Adds the subcommand `stateless`; `options` must outlive parsing.
Command add_stateless(Command& app, StatelessOptions& options);

/// Gives options of a parsed subcommand the defaults of their front. Throws UsageError for an
/// option of the other one.
void complete(const Command& command, StatelessOptions& options);

} // namespace reprise::proxy
