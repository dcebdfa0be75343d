#pragma once
// What the clients of a synthetic trace ask.

#include "core/base/random.hh"
#include "core/dns/name.hh"
#include "mutator/synth/clients.hh"
#include "mutator/synth/query_names.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::mutator {

/// Makes query after query: id, type and flags by the settings' shares, the name by the kind of
/// trace.
class QueryMaker {
public:
    explicit QueryMaker(const SynthSettings& settings);
    virtual ~QueryMaker() = default;
    QueryMaker(const QueryMaker&) = delete;
    QueryMaker& operator=(const QueryMaker&) = delete;

    /// Replaces `out` by a query of a client, which has this habit. Returns whether its name is
    /// junk.
    bool make(std::uint32_t client, const ClientHabit& habit, Random& random,
              std::vector<std::uint8_t>& out);

private:
    /// Draws a name fit for the type, without its root label; returns whether it is junk.
    virtual bool make_name(std::uint32_t client, std::uint16_t type, Random& random, Name& out) = 0;

    Mix mix_;
    WeightedChoice types_;
    double rd_share_;
    Name name_;
};

/// The maker that the settings ask for. `tlds` as from load_tlds(), where needs_tlds(). Throws
/// UsageError where the file of names cannot be used.
std::unique_ptr<QueryMaker> make_query_maker(const SynthSettings& settings,
                                             std::vector<std::string> tlds);

/// Whether names are drawn below top-level domains.
bool needs_tlds(const SynthSettings& settings);

} // namespace reprise::mutator
