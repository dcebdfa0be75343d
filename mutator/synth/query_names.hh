#pragma once
// Names that a root server is asked for.

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::mutator {

/// Draws a name fit for the type, without its root label; returns whether it is junk.
using MakeName =
    std::function<bool(std::uint32_t client, std::uint16_t type, Random& random, Name& out)>;

/// Of few kinds: below `tlds` (weighted by rank), or, `junk_share` of all, below top-level domains
/// that do not exist.
MakeName simple_names(std::vector<std::string> tlds, double junk_share);

/// Names calibrated against a minute of a root server.
///
/// The figures are shares counted in 10,432 queries of a root server of 2016-10-06 (the public
/// capture nsd-live.raw.pcap of the dns-stats project; docs/synthetic.md puts both side by side):
/// of each query type how many ask for what does not exist, how many labels such names have, which
/// top-level domains leak, which existing ones are asked for.
///
/// `tlds` exist; `types` are what is asked for, with their weights. `junk_share` of all names are
/// below top-level domains that do not exist: each type's own share is moved (its odds by one
/// factor) until the sum is right.
MakeName root_names(std::vector<std::string> tlds, const Mix& types, double junk_share);

} // namespace reprise::mutator
