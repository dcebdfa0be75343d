#include "proxy/delay/delay_model.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/random.hh"
#include "core/base/text.hh"
#include "proxy/delay/rtt.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace reprise::proxy {

namespace {

/// A keyed hash: the same on every host.
std::uint64_t address_hash(const IpAddress& address, std::uint64_t key) {
    std::uint64_t high = 0;
    std::uint64_t low = 0;
    std::memcpy(&high, address.bytes.data(), sizeof high);
    std::memcpy(&low, address.bytes.data() + sizeof high, sizeof low);
    const std::uint64_t start = mix_bits(key + kGoldenStep) + address.family;
    return mix_bits(mix_bits(start ^ high) + low);
}

/// Bits as a number in [0, 1).
constexpr double unit_of(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }

void want_between(const char* option, const std::optional<double>& value, double high) {
    if (value && !(*value >= 0 && *value <= high)) {
        throw UsageError(fmt::format("{} {} is out of range; give 0 to {}", option, *value, high));
    }
}

void check(const DelayOptions& options) {
    want_between("--rtt-ms", options.rtt_ms, kMostRttMs);
    want_between("--jitter-ms", options.jitter_ms, kMostRttMs);
    want_between("--loss-percent", options.loss_percent, 100);
    want_between("--share", options.share, 1);
    if (options.rtt_ms && !options.rtt_distribution.empty()) {
        throw UsageError("--rtt-ms and --distribution are both given; give one of them");
    }
}

/// The message for a seed that is no whole number of 64 bits, which the parser would bend to one.
std::string refuse_seed(const std::string& text) {
    return parse_number<std::uint64_t>(text)
               ? std::string()
               : fmt::format("--seed {} is out of range; give 0 to 2^64 - 1", text);
}

RttTable read_table(const DelayOptions& options, const Path& usual) {
    const std::string& name = options.rtt_table;
    std::ifstream file(name);
    if (!file) {
        throw UsageError(fmt::format("--table {} cannot be opened: {}; give a readable file", name,
                                     std::generic_category().message(errno)));
    }
    RttTable table(file, name, usual);
    if (table.size() == 0 && !table.fallback()) {
        throw UsageError(fmt::format("{} holds no row; write PREFIX rtt_ms", name));
    }
    if (table.fallback() && (options.rtt_ms || !options.rtt_distribution.empty())) {
        throw UsageError(fmt::format("{} has a row `default` and {} is given too; leave one out",
                                     name, options.rtt_ms ? "--rtt-ms" : "--distribution"));
    }
    return table;
}

} // namespace

DelayModel::DelayModel(const DelayOptions& options, double share, std::uint64_t salt)
    : usual_{.rtt = to_nanoseconds(options.rtt_ms.value_or(0)),
             .jitter = to_nanoseconds(options.jitter_ms.value_or(0)),
             .loss = options.loss_percent.value_or(0) / 100,
             .listed =
                 options.rtt_ms || options.rtt_table.empty() || !options.rtt_distribution.empty()},
      share_(options.share.value_or(share)), seed_(options.seed),
      state_(mix_bits(seed_ ^ mix_bits(salt))) {
    if (!options.rtt_table.empty()) {
        table_ = read_table(options, usual_);
    }
    if (!options.rtt_distribution.empty()) {
        distribution_ = rtt_distribution(options.rtt_distribution);
    }
}

DrawnDelay DelayModel::draw(const IpAddress& far) {
    const Path path = path_to(far);
    if (path.loss > 0 && next_unit() < path.loss) {
        return {.delay = 0, .lost = true, .listed = path.listed};
    }
    auto rtt = static_cast<double>(path.rtt);
    if (path.jitter > 0) {
        rtt += static_cast<double>(path.jitter) * (2 * next_unit() - 1);
    }
    return {.delay = std::max<Nanoseconds>(std::llround(rtt * share_), 0),
            .lost = false,
            .listed = path.listed};
}

Path DelayModel::path_to(const IpAddress& far) const {
    if (const Path* const found = table_ ? table_->find(far) : nullptr) {
        return *found;
    }
    Path path = usual_;
    if (distribution_) {
        path.rtt = distribution_(unit_of(address_hash(far, seed_)));
    }
    return path;
}

double DelayModel::next_unit() {
    state_ += kGoldenStep;
    return unit_of(mix_bits(state_));
}

void add_delay_options(Command& app, DelayOptions& options) {
    const auto add = [&](const char* name, auto& value, const char* help) {
        return app.add_option(name, value, help).group("Delay");
    };
    add("--rtt-ms", options.rtt_ms, "Round trip to every address that the table leaves");
    add("--table,--rtt-table", options.rtt_table,
        "File of lines PREFIX rtt_ms [jitter_ms [loss_percent]]; the longest prefix counts, "
        "`default` holds for all addresses")
        .type_name("FILE");
    add("--distribution,--rtt-distribution", options.rtt_distribution,
        "Round trip to every address that the table leaves, drawn once for each: normal:MEAN,SD, "
        "uniform:LOW,HIGH, lognormal:MEDIAN,SIGMA (ms), or a file of observed ones, one a line")
        .type_name("SHAPE|FILE");
    add("--jitter-ms", options.jitter_ms,
        "Most by which a packet's round trip differs from its path's, either way; packets may "
        "overtake others. None is below 0, so jitter above the round trip makes its mean longer");
    add("--loss-percent", options.loss_percent, "Packets that are lost on this side");
    add("--share", options.share,
        "Part of the round trip that this side waits (0.5 beside a resolver or meta-DNS-server, "
        "1 for replies)");
    add("--seed", options.seed, "Of what is drawn; both ends of a path need the same (default 1)")
        .check(refuse_seed);
}

std::unique_ptr<DelayModel> make_model(const DelayOptions& options, double share,
                                       std::uint64_t salt) {
    check(options);
    if (!options.rtt_ms && options.rtt_table.empty() && options.rtt_distribution.empty() &&
        !options.jitter_ms && !options.loss_percent) {
        if (options.share || options.seed != DelayOptions{}.seed) {
            throw UsageError("--share and --seed say how to delay; give --rtt-ms or another delay "
                             "too");
        }
        return nullptr;
    }
    return std::make_unique<DelayModel>(options, share, salt);
}

} // namespace reprise::proxy
