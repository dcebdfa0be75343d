#pragma once
// The round trips of a trace's sources as a table for a delay line.

#include "core/base/address_ids.hh"
#include "core/rules/engine/catalog.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {

struct RttsOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
    rules::RuleSet rules; ///< change the trace before
};

/// The class of each source address that has one, whatever its port; its first counts. Memory:
/// about 100 bytes for each of them.
class SourceRtts {
public:
    void add(const Query& query);

    /// Rows `ADDRESS rtt_ms`, tab-separated, in order of appearance; behind a line that names them.
    [[nodiscard]] std::string table() const;

    [[nodiscard]] size_t sources() const { return sources_.size(); }

    /// Sources whose queries carry more than one class.
    [[nodiscard]] std::uint64_t conflicting() const { return conflicting_; }

    [[nodiscard]] std::uint64_t queries() const { return queries_; }

    /// Queries without a class.
    [[nodiscard]] std::uint64_t without() const { return without_; }

private:
    struct Class {
        std::uint16_t ms = 0;
        bool conflicting = false;
    };

    AddressTable sources_;
    std::vector<Class> classes_; ///< by number
    std::uint64_t conflicting_ = 0;
    std::uint64_t queries_ = 0;
    std::uint64_t without_ = 0;
};

/// Writes the table. Returns the exit status: 0, or 1 where the trace was cut. Throws Error where
/// no query has a class, TraceError, UsageError, and RuleError as rules::Chain does.
int run_rtts(const RttsOptions& options);

} // namespace reprise::mutator
