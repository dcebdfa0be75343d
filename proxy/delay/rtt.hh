#pragma once
// Round trips by address: out of a table of prefixes, of which the longest that matches counts, or
// drawn from a distribution, by quantile, so that a hash of an address draws its own.
//
// All prefixes lie in one flat hash table under (address with its host bits cleared, length), and a
// lookup tries the lengths that occur, longest first. So single addresses cost one probe however
// many there are: a million take 48 MiB and 24 bytes for each row.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::proxy {

inline constexpr double kMostRttMs = 100'000;

/// Milliseconds as nanoseconds, brought into the range of round trips.
Nanoseconds to_nanoseconds(double ms);

/// What a path does to packets; a whole round trip.
struct Path {
    Nanoseconds rtt = 0;
    Nanoseconds jitter = 0; ///< most by which a packet's round trip differs, either way
    double loss = 0;        ///< share of packets, each way
    bool listed = true;     ///< false where a table leaves the address and nothing else is said

    bool operator==(const Path&) const = default;
};

class RttTable {
public:
    /// Reads lines `PREFIX rtt_ms [jitter_ms [loss_percent]]` with blanks or tabs between;
    /// `default` stands for all addresses, # begins a comment. Cells that a line leaves out are
    /// those of `missing`. Throws UsageError with `name` and the line.
    RttTable(std::istream& file, const std::string& name, const Path& missing);

    /// The path to an address; none where no line holds for it.
    [[nodiscard]] const Path* find(const IpAddress& address) const;

    /// The path of the line `default`; none where there is none.
    [[nodiscard]] const std::optional<Path>& fallback() const { return fallback_; }

    [[nodiscard]] size_t size() const { return rows_.size(); }

private:
    void add(std::string_view prefix, const Path& path);

    FlatIds<18> ids_; ///< of prefixes, into rows_
    std::vector<Path> rows_;
    /// Those that occur, of IPv6 at 1; the longest first.
    std::array<std::set<std::uint8_t, std::greater<>>, 2> lengths_;
    std::optional<Path> fallback_;
};

/// The round trip below which a share of all lie (in [0, 1)): never negative, never above
/// kMostRttMs.
using RttDistribution = std::function<Nanoseconds(double share)>;

/// `normal:MEAN,SD`, `uniform:LOW,HIGH`, `lognormal:MEDIAN,SIGMA` (times in ms, SIGMA of the
/// natural logarithm), or the name of a file of observed round trips in ms, one a line (# begins a
/// comment), of which each is as likely as the others. Throws UsageError.
RttDistribution rtt_distribution(const std::string& text);

/// The standard normal distribution's value below which a share lies (at least 2^-54, below 1).
double normal_quantile(double share);

} // namespace reprise::proxy
