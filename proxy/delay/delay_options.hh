#pragma once
// The options of all subcommands that delay packets, and the model they describe.

#include "proxy/delay/delay_model.hh"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace reprise {
class Command;
}

namespace reprise::proxy {

/// As given on the command line; times in ms.
struct DelayOptions {
    std::optional<double> rtt_ms{};
    std::string rtt_table{};        ///< a file, see RttTable
    std::string rtt_distribution{}; ///< such as "normal:20,5", or a file, see RttDistribution
    std::optional<double> jitter_ms{};
    std::optional<double> loss_percent{};
    std::optional<double> share{}; ///< part of the round trip that this side waits, 0 to 1
    std::uint64_t seed = 1;
};

/// Adds the options as a group; `options` must outlive parsing.
void add_delay_options(Command& app, DelayOptions& options);

/// Where packets wait. Beside a resolver and beside the meta-DNS-server each proxy has one
/// direction and waits half of the round trip; beside a server under test replies wait all of it.
enum class DelaySide : std::uint8_t { kResolver, kMeta, kReplies };

/// The model, or none where no option asks for one (packets then go on at once). Throws UsageError.
std::unique_ptr<DelayModel> make_model(const DelayOptions& options, DelaySide side);

} // namespace reprise::proxy
