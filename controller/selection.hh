#pragma once
// Which queries of a trace are not handed to a querier, and why.

#include "controller/options.hh"
#include "core/base/address.hh"
#include "core/base/prefix.hh"
#include "core/trace/retransmits.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace reprise::controller {

/// Why a query is left out; the names stand in controller.json (docs/formats.md).
enum class Skip : std::uint8_t {
    kNone,
    kNotify, ///< of this opcode, which changes servers (unless all_opcodes)
    kUpdate, ///< the same
    kNoIpv4Server,
    kNoIpv6Server,
    kSourcePrefix,   ///< replay.skip_sources
    kSourceUnusable, ///< no answer could reach its address (modes addresses and packet)
    kSample,         ///< its source is not of the sample
    kFrom,           ///< before replay.from
    kRetransmit,     ///< replay.collapse_retransmits
    kTransport,      ///< over QUIC or HTTPS, which are not played (without replay.transport)
    kDuration,       ///< read, but replay.duration_s was over before it was handed out (fast)
    kCount
};

/// Name of a reason as in controller.json.
const char* skip_name(Skip reason);

/// Whether a source belongs to a sample of `share`: by a keyed hash of its address, so the same in
/// every run, for every query of the source, and independent of the assignment to hosts.
bool in_sample(const IpAddress& source, double share);

/// Whether no answer can ever be routed to a source: unspecified, loopback, multicast and reserved
/// ones, IPv6 link-local (it needs a zone) and IPv4-mapped ones (the kernel drops them).
bool is_unusable(const IpAddress& source);

class Selection {
public:
    Selection(const Options& options, const Servers& servers);

    /// Why the query is left out; kNone: it is not.
    Skip judge(const Query& query);

private:
    [[nodiscard]] Skip judge_source(const IpAddress& source) const;

    Servers servers_;
    bool all_opcodes_;
    bool traced_transport_ = true; ///< queries travel as in the trace
    bool all_usable_;              ///< the server sees other addresses than the trace's
    std::vector<Prefix> skipped_;
    std::vector<IpAddress> own_; ///< of the server and its peers
    double share_;
    std::optional<trace::Retransmits> retransmits_;
};

/// Counts of skipped queries by reason.
class SkipCounts {
public:
    void add(Skip reason) { ++counts_[static_cast<size_t>(reason)]; }

    [[nodiscard]] std::uint64_t sum() const;

    [[nodiscard]] std::uint64_t of(Skip reason) const {
        return counts_[static_cast<size_t>(reason)];
    }

    /// Those that are not zero, by name.
    [[nodiscard]] std::map<std::string, std::uint64_t> named() const;

private:
    std::array<std::uint64_t, static_cast<size_t>(Skip::kCount)> counts_{};
};

} // namespace reprise::controller
