#pragma once
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

} // namespace reprise::querier
