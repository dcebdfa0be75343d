#pragma once
// How long packets wait, by the far address.
//
// An address has one distance: out of the table, or else what the fallback says; a distribution is
// asked at the quantile that a keyed hash of the address gives. So the proxies at both ends of a
// path agree on its round trip without a word between them, and a seed gives the same distances
// always.
//
// All prefixes of a table lie in one flat hash table under (address with its host bits cleared,
// length), and a lookup tries the lengths that occur, longest first. So single addresses cost one
// probe however many there are: a million take 48 MiB and 24 bytes for each row.
//
// Jitter and loss are drawn for each packet. Jitter is uniform, and a packet may overtake others of
// its path, as it may in a real network. Each side waits its share of the round trip and of the
// jitter: with two halves the round trip's jitter is triangular over the same range. Loss holds for
// each packet that passes a side.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {
class Command;
}

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

/// What becomes of one packet.
struct DrawnDelay {
    Nanoseconds delay = 0; ///< one way, on this side
    bool lost = false;     ///< dropped by the model, and counted
    bool listed = true;    ///< see Path
};

/// As given on the command line; times in ms.
struct DelayOptions {
    std::optional<double> rtt_ms{};
    std::string rtt_table{};        ///< a file, see RttTable
    std::string rtt_distribution{}; ///< such as "normal:20,5", or a file, see rtt_distribution()
    std::optional<double> jitter_ms{};
    std::optional<double> loss_percent{};
    std::optional<double> share{}; ///< part of the round trip that this side waits, 0 to 1
    std::uint64_t seed = 1;
};

/// Says how long each packet waits. Deterministic for a seed and an order of packets.
class DelayModel {
public:
    /// See make_model(), which looks at the options.
    DelayModel(const DelayOptions& options, double share, std::uint64_t salt);

    /// `far` is the address whose distance counts: the OQDA beside a resolver or the
    /// meta-DNS-server, the client's address beside a server.
    DrawnDelay draw(const IpAddress& far);

private:
    [[nodiscard]] Path path_to(const IpAddress& far) const;

    /// Uniform in [0, 1), the next of the packets' sequence.
    double next_unit();

    Path usual_; ///< of the addresses that both leave; its jitter and loss also with a distribution
    std::optional<RttTable> table_;
    RttDistribution distribution_; ///< of the addresses that the table leaves; empty for none
    double share_;
    std::uint64_t seed_;
    std::uint64_t state_;
};

/// Adds the options of all subcommands that delay packets; `options` must outlive parsing.
void add_delay_options(Command& app, DelayOptions& options);

/// The model, or none where no option asks for one (packets then go on at once). `share` is the
/// part of the round trip that packets wait, where the options do not say it; `salt` is another one
/// for each side, so that jitter and loss of their packets are independent. Throws UsageError.
std::unique_ptr<DelayModel> make_model(const DelayOptions& options, double share,
                                       std::uint64_t salt);

// Packets on their way: each is kept until its time has come, in bounded memory.

struct DelayLineLimits {
    size_t packets = size_t{1} << 20U;
    size_t bytes = size_t{256} << 20U; ///< of all packets; each takes some 150 more
};

class DelayLine {
public:
    explicit DelayLine(DelayLineLimits limits = {}) : limits_(limits) {}

    /// Copies the packet. False where a limit is reached.
    bool push(Nanoseconds due, Bytes packet) {
        if (line_.size() >= limits_.packets || packet.size() > limits_.bytes - bytes_) {
            return false;
        }
        bytes_ += packet.size();
        // With a constant delay it is the latest, which takes constant time.
        line_.emplace_hint(line_.end(), due,
                           std::vector<std::uint8_t>(packet.begin(), packet.end()));
        return true;
    }

    /// When the next packet is due; none where the line is empty.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const {
        return line_.empty() ? std::nullopt : std::optional(line_.begin()->first);
    }

    /// Hands the packets that are due at `now` to `take(Nanoseconds due, Bytes packet)`, earliest
    /// first, those of one time as they came, at most `most`. The bytes are valid during the call;
    /// `take` must not push. Returns their number.
    template <typename Take> size_t pop_due(Nanoseconds now, Take&& take, size_t most = SIZE_MAX) {
        size_t count = 0;
        for (; count < most && !line_.empty() && line_.begin()->first <= now; ++count) {
            const auto& [due, packet] = *line_.begin();
            take(due, Bytes(packet));
            bytes_ -= packet.size();
            line_.erase(line_.begin());
        }
        return count;
    }

    [[nodiscard]] size_t size() const { return line_.size(); }

private:
    DelayLineLimits limits_;
    std::multimap<Nanoseconds, std::vector<std::uint8_t>> line_; ///< by when they are due
    size_t bytes_ = 0;
};

} // namespace reprise::proxy
