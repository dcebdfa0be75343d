#pragma once
#include "core/wire/counts.hh"
#include "core/wire/result_file.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier {

/// How often what went wrong; bounded, because reasons come from libraries and servers.
class Failures {
public:
    static constexpr size_t kMostReasons = 16;

    using Count = std::pair<std::string, std::uint64_t>;

    void add(std::string_view reason) {
        const auto known = std::ranges::find(counts_, reason, &Count::first);
        if (known != counts_.end()) {
            ++known->second;
        } else if (counts_.size() < kMostReasons) {
            counts_.emplace_back(reason, 1);
        } else {
            ++other_;
        }
    }

    /// In the order they first came.
    [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }

    /// Those that came after the list was full.
    [[nodiscard]] std::uint64_t other() const { return other_; }

private:
    std::vector<Count> counts_;
    std::uint64_t other_ = 0;
};

/// Everything a querier counts, and what else its result file tells.
struct Statistics : Counts, ConnectionCounts, QuerierCounts {
    std::uint64_t open_now = 0;        ///< connections
    Failures failures;                 ///< why connections with queries on them ended badly
    std::vector<std::string> warnings; ///< what makes a clean run say less than it seems to

    /// Adds one end of a query.
    void count_end(Status status);
};

/// The trailing JSON of a .rq file (docs/formats.md); reads this process's CPU time and memory.
std::string statistics_json(const Statistics& statistics, bool clean, const std::string& because);

} // namespace reprise::querier
