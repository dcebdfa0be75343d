#pragma once
// The clients of a synthetic trace: who they are and how active.

#include "core/base/address.hh"
#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/names.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {

/// What one client always does, as one resolver would.
struct ClientHabit {
    bool ipv6 = false;
    bool edns = false;
    bool dnssec_ok = false;
    std::uint16_t edns_size = 0;
    bool checking_disabled = false;
};

/// Clients by rank of activity (Zipf). Family, EDNS, its size and DO are a client's own, picked out
/// so that the shares of *queries* come as near to what was asked as whole clients allow: rank
/// after rank, each takes the habit that lacks most of its share. Memory: about 17 bytes a client;
/// addresses are computed.
class Clients {
public:
    explicit Clients(const SynthSettings& settings);

    /// A client by activity.
    std::uint32_t draw(Random& random) const { return activity_.draw(random); }

    [[nodiscard]] const ClientHabit& habit(std::uint32_t client) const {
        return habits_[kinds_[client]];
    }

    /// Distinct for every client: its number spread over the prefix's host part.
    [[nodiscard]] IpAddress address(std::uint32_t client) const;

    /// A port for the client's next query or connection.
    std::uint16_t port(std::uint32_t client, Random& random) const;

    /// The port after `port`; the first one if there is none.
    static std::uint16_t next_port(std::uint16_t port);

private:
    void make_habits(const SynthSettings& settings);
    void deal(const std::vector<double>& weights);

    PortStyle ports_;
    Prefix prefix4_;
    Prefix prefix6_;
    WeightedChoice activity_;
    std::vector<ClientHabit> habits_;
    std::vector<double> shares_; ///< of each habit, sum 1
    std::vector<std::uint16_t> kinds_;
};

// What the clients of a synthetic trace ask.

/// Makes query after query: id, type and flags by the settings' shares, the name by the kind of
/// trace.
class QueryMaker {
public:
    /// `tlds` as from load_tlds(), where needs_tlds(). Throws UsageError where the file of names
    /// cannot be used.
    QueryMaker(const SynthSettings& settings, std::vector<std::string> tlds);

    /// Replaces `out` by a query of a client, which has this habit. Returns whether its name is
    /// junk.
    bool make(std::uint32_t client, const ClientHabit& habit, Random& random,
              std::vector<std::uint8_t>& out);

private:
    Mix mix_;
    WeightedChoice types_;
    double rd_share_;
    MakeName make_name_;
    Name name_;
};

/// Whether names are drawn below top-level domains.
bool needs_tlds(const SynthSettings& settings);

} // namespace reprise::mutator
