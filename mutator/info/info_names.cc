#include "mutator/info/info_names.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::mutator {

void TopKeys::add(std::string_view key) {
    const auto found = counts_.find(key);
    if (found != counts_.end()) {
        ++found->second;
        return;
    }
    counts_.emplace(key, 1);
    if (counts_.size() > 2 * kept_) {
        purge();
    }
}

void TopKeys::purge() {
    std::vector<std::uint64_t> all;
    all.reserve(counts_.size());
    for (const auto& [key, count] : counts_) {
        all.push_back(count);
    }
    const auto last_kept = all.begin() + static_cast<std::ptrdiff_t>(kept_ - 1);
    std::ranges::nth_element(all, last_kept, std::greater{});
    const std::uint64_t less = *last_kept;
    for (auto& [key, count] : counts_) {
        count -= std::min(count, less);
    }
    std::erase_if(counts_, [](const auto& entry) { return entry.second == 0; });
    error_ += less;
}

std::vector<TopKeys::Entry> TopKeys::top(size_t most) const {
    std::vector<Entry> all;
    all.reserve(counts_.size());
    for (const auto& [key, count] : counts_) {
        all.push_back({.key = key, .count = count});
    }
    const size_t shown = std::min(most, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(shown),
                              [](const Entry& a, const Entry& b) {
                                  return a.count != b.count ? a.count > b.count : a.key < b.key;
                              });
    all.resize(shown);
    return all;
}

void TopNames::add(std::string_view wire_name) {
    lower_.assign(wire_name);
    // Lengths of labels are below 64 and so no letters.
    for (char& c : lower_) {
        c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    keys_.add(lower_);
}

} // namespace reprise::mutator
