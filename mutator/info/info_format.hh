#pragma once
// Numbers, times and counts as the renderings of `info` show them.

#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::mutator {

/// 0 of nothing.
double share(std::uint64_t part, std::uint64_t whole);

inline double percent(std::uint64_t part, std::uint64_t whole) { return 100 * share(part, whole); }

inline double microseconds(double nanoseconds) { return nanoseconds / 1e3; }

inline double microseconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;
}

/// UTC, e.g. "2016-10-06T13:55:00.009660000Z".
std::string utc(Nanoseconds time);

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number);

inline std::string number_text(std::uint64_t number) { return std::to_string(number); }

/// Counts by name, the greatest first; ties by name.
using Named = std::vector<std::pair<std::string, std::uint64_t>>;

template <typename Counts, typename Name> Named named(const Counts& counts, Name name) {
    Named out;
    for (const auto& [key, count] : counts) {
        out.emplace_back(name(key), count);
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return out;
}

} // namespace reprise::mutator
