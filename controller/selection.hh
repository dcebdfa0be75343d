#pragma once
// Which queries of a trace are not handed to a querier, and why.

#include "controller/options.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/batch.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
    kSample,         ///< its source is not of the sample (as `--keep share=10,by=source`)
    kFrom,           ///< before replay.from
    kRetransmit,     ///< replay.collapse_retransmits
    kTransport,      ///< over QUIC or HTTPS, which are not played (without replay.transport)
    kDuration,       ///< read, but replay.duration_s was over before it was handed out (fast)
    kCount
};

/// Name of a reason as in controller.json.
const char* skip_name(Skip reason);

/// The choice as rules of the mutator: each leaves queries out for a reason of its own.
class Selection {
public:
    Selection(const Options& options, const Servers& servers);

    /// Why the query is left out, which is the first rule's reason; kNone: it is not.
    Skip judge(Query& query);

    /// The trace begins again: nothing repeats a query of the lap before.
    void restart();

private:
    struct NamedRule {
        Skip reason;
        rules::RuleSet set; ///< it alone
        std::unique_ptr<rules::Rule> rule;
    };

    void add(Skip reason, const std::string& kind, const std::string& key,
             std::vector<std::string> values);
    void add_of_sources(const Options& options, const Servers& servers);

    std::vector<NamedRule> rules_;
    Batch batch_; ///< no rule here makes anything
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
