#pragma once
// How long packets wait, by the far address.
//
// An address has one distance: out of the table, or else what the fallback says; a distribution is
// asked at the quantile that a keyed hash of the address gives. So the proxies at both ends of a
// path agree on its round trip without a word between them, and a seed gives the same distances
// always.
//
// Jitter and loss are drawn for each packet. Jitter is uniform, and a packet may overtake others of
// its path, as it may in a real network. Each side waits its share of the round trip and of the
// jitter: with two halves the round trip's jitter is triangular over the same range. Loss holds for
// each packet that passes a side.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "proxy/delay/rtt.hh"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace reprise {
class Command;
}

namespace reprise::proxy {

/// What becomes of one packet.
struct DrawnDelay {
    Nanoseconds delay = 0; ///< one way, on this side
    bool lost = false;     ///< dropped by the model, and counted
    bool listed = true;    ///< see Path
};

/// What a model is made of.
struct DelayPlan {
    std::optional<RttTable> table;
    RttDistribution distribution; ///< of the addresses that the table leaves; empty for none
    Path usual; ///< of the addresses that both leave; its jitter and loss also with a distribution
    double share = 1;
    std::uint64_t seed = 1;
    std::uint64_t salt = 0; ///< see make_model()
};

/// Says how long each packet waits. Deterministic for a seed and an order of packets.
class DelayModel {
public:
    explicit DelayModel(DelayPlan plan);

    /// `far` is the address whose distance counts: the OQDA beside a resolver or the
    /// meta-DNS-server, the client's address beside a server.
    DrawnDelay draw(const IpAddress& far);

private:
    [[nodiscard]] Path path_to(const IpAddress& far) const;

    /// Uniform in [0, 1), the next of the packets' sequence.
    double next_unit();

    DelayPlan plan_;
    std::uint64_t state_;
};

// The options of all subcommands that delay packets, and the model they describe.

/// As given on the command line; times in ms.
struct DelayOptions {
    std::optional<double> rtt_ms{};
    std::string rtt_table{};        ///< a file, see RttTable
    std::string rtt_distribution{}; ///< such as "normal:20,5", or a file, see rtt_distribution()
    std::optional<double> jitter_ms{};
    std::optional<double> loss_percent{};
    std::optional<double> share{}; ///< part of the round trip that this side waits, 0 to 1
    std::uint64_t seed = 1;
};

/// Adds the options as a group; `options` must outlive parsing.
void add_delay_options(Command& app, DelayOptions& options);

/// The model, or none where no option asks for one (packets then go on at once). `share` is the
/// part of the round trip that packets wait, where the options do not say it; `salt` is another one
/// for each side, so that jitter and loss of their packets are independent. Throws UsageError.
std::unique_ptr<DelayModel> make_model(const DelayOptions& options, double share,
                                       std::uint64_t salt);

} // namespace reprise::proxy
