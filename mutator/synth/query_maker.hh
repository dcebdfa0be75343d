#pragma once
// What the clients of a synthetic trace ask.

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/query_names.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::mutator {

/// Draws a name fit for the type, without its root label; returns whether it is junk.
using MakeName =
    std::function<bool(std::uint32_t client, std::uint16_t type, Random& random, Name& out)>;

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
