#include "core/base/address.hh"
#include "mutator/rules/engine/batch.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/volume/volume_rules.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace reprise::mutator {

void HeavyRule::survey(const Item& item) {
    if (!item.is_close() && surveyed_.takes(item)) {
        ++counts_[item.source.address];
    }
}

void HeavyRule::choose() {
    std::vector<std::pair<IpAddress, std::uint64_t>> all(counts_.begin(), counts_.end());
    counts_.clear();
    const auto busier = [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    };
    const auto kept = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(top_, all.size()));
    std::ranges::partial_sort(all, all.begin() + kept, busier);
    for (auto one = all.begin(); one != all.begin() + kept; ++one) {
        heavy_.insert(one->first);
    }
    chosen_ = true;
}

// Closes go with their source; of a connection whose queries stay they stay, too.
void HeavyRule::apply(Batch& batch) {
    if (!chosen_) {
        choose();
    }
    std::uint64_t closes = 0;
    const auto goes = [&](const Item& item) {
        const bool gone = selector_.takes(item) && !heavy_.contains(item.source.address);
        closes += gone && item.is_close() ? 1U : 0U;
        return gone;
    };
    dropped_ += std::erase_if(batch.items, goes);
    dropped_ -= closes;
}

RuleCounts HeavyRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"dropped", dropped_}};
}

} // namespace reprise::mutator
