#include "proxy/delay/delay_model.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/flat_ids.hh"
#include "core/base/random.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace reprise::proxy {

Nanoseconds to_nanoseconds(double ms) {
    return std::llround(std::clamp(ms, 0.0, kMostRttMs) * static_cast<double>(kMillisecond));
}

namespace {

constexpr std::string_view kForm = "write PREFIX rtt_ms [jitter_ms [loss_percent]]";
constexpr size_t kMostCells = 4;
constexpr double kMostSigma = 10;

using Cells = std::vector<std::string_view>;

/// A decimal number from 0 to `most` and nothing else.
std::optional<double> parse_up_to(std::string_view text, double most) {
    const auto value = parse_number<double>(text);
    return value && *value >= 0 && *value <= most ? value : std::nullopt;
}

/// The cells of a line up to its comment (#), separated by blanks; no more than kMostCells + 1.
Cells split_cells(std::string_view line) {
    constexpr std::string_view kBlanks = " \t\r";
    Cells cells;
    line = line.substr(0, line.find('#'));
    while (cells.size() <= kMostCells) {
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty()) {
            break;
        }
        cells.push_back(line.substr(0, line.find_first_of(kBlanks)));
        line.remove_prefix(cells.back().size());
    }
    return cells;
}

/// Hands each line that has cells to `take`, which throws Error with what is wrong with it. Throws
/// UsageError with `name` and the line.
void read_rows(std::istream& file, const std::string& name,
               const std::function<void(const std::string&, const Cells&)>& take) {
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        try {
            if (const Cells cells = split_cells(line); !cells.empty()) {
                take(line, cells);
            }
        } catch (const Error& wrong) {
            throw UsageError(fmt::format("{}:{}: {}", name, number, wrong.what()));
        }
    }
}

/// The path of a line; what it leaves out is as in `path`.
Path parse_path(const Cells& cells, Path path) {
    if (cells.size() < 2 || cells.size() > kMostCells) {
        throw Error(fmt::format(
            "the line has {} cells; {}",
            cells.size() > kMostCells ? "more than 4" : std::to_string(cells.size()), kForm));
    }
    path.listed = true;
    for (size_t at = 1; at < std::min(cells.size(), size_t{3}); ++at) {
        const auto ms = parse_up_to(cells[at], kMostRttMs);
        if (!ms) {
            throw Error(
                fmt::format("'{:.40}' is not a time; give 0 to {} ms", cells[at], kMostRttMs));
        }
        (at == 1 ? path.rtt : path.jitter) = to_nanoseconds(*ms);
    }
    if (cells.size() == kMostCells) {
        const auto percent = parse_up_to(cells.back(), 100);
        if (!percent) {
            throw Error(fmt::format("'{}' is not a percentage; give 0 to 100", cells.back()));
        }
        path.loss = *percent / 100;
    }
    return path;
}

FlatIds<18>::Key key_of(const IpAddress& address, std::uint8_t length) {
    FlatIds<18>::Key key{};
    std::ranges::copy(address.bytes, key.begin());
    key[16] = address.family;
    key[17] = length;
    return key;
}

} // namespace

RttTable::RttTable(std::istream& file, const std::string& name, const Path& missing) {
    read_rows(file, name, [&](const std::string& /*line*/, const Cells& cells) {
        add(cells.front(), parse_path(cells, missing));
    });
    if (file.bad()) {
        throw UsageError(fmt::format("{} cannot be read; give a readable file", name));
    }
}

const Path* RttTable::find(const IpAddress& address) const {
    for (const std::uint8_t length : lengths_.at(address.is_v6() ? 1 : 0)) {
        if (const auto row = ids_.find(key_of(masked(address, length), length))) {
            return &rows_[*row];
        }
    }
    return fallback_ ? &*fallback_ : nullptr;
}

/// Enters a row. Throws Error with what is wrong with it; the same row twice does no harm.
void RttTable::add(std::string_view text, const Path& path) {
    const Path* before = nullptr;
    if (text == "default") {
        before = fallback_ ? &*fallback_ : &fallback_.emplace(path);
    } else {
        const auto prefix = Prefix::parse(text);
        if (!prefix) {
            throw Error(fmt::format("'{}' is not a prefix; give one such as 192.0.2.0/24, "
                                    "2001:db8::/32 or default",
                                    text));
        }
        const IpAddress network = masked(prefix->address, prefix->bits);
        const auto length = static_cast<std::uint8_t>(prefix->bits);
        if (network != prefix->address) {
            throw Error(fmt::format("'{}' has bits behind its length; write {}/{}", text,
                                    network.text(), length));
        }
        const auto [id, fresh] =
            ids_.find_or_add(key_of(network, length), static_cast<std::uint32_t>(rows_.size()));
        if (fresh) {
            rows_.push_back(path);
            lengths_.at(network.is_v6() ? 1 : 0).insert(length);
        }
        before = &rows_[id];
    }
    if (*before != path) {
        throw Error(fmt::format("'{}' is there twice with different values; leave one out", text));
    }
}

namespace {

/// The two numbers of "A,B", or none.
std::optional<std::pair<double, double>> parse_pair(std::string_view text, double most_second) {
    const size_t comma = text.find(',');
    if (comma == std::string_view::npos) {
        return std::nullopt;
    }
    const auto first = parse_up_to(text.substr(0, comma), kMostRttMs);
    const auto second = parse_up_to(text.substr(comma + 1), most_second);
    return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

/// Those of a file, ms, ascending; at least one.
std::vector<double> read_observed(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw UsageError(fmt::format("--distribution {} cannot be opened: {}; give a file of "
                                     "round trips or normal:MEAN,SD, uniform:LOW,HIGH, "
                                     "lognormal:MEDIAN,SIGMA",
                                     path, std::generic_category().message(errno)));
    }
    std::vector<double> found;
    read_rows(file, path, [&found](const std::string& line, const Cells& cells) {
        const auto value =
            cells.size() == 1 ? parse_up_to(cells.front(), kMostRttMs) : std::nullopt;
        if (!value) {
            throw Error(fmt::format("'{:.40}' is not a time; give one of 0 to {} ms a line", line,
                                    kMostRttMs));
        }
        found.push_back(*value);
    });
    if (file.bad()) { // a folder opens, too
        throw UsageError(fmt::format("--distribution {} cannot be read: {}; give a file", path,
                                     std::generic_category().message(errno)));
    }
    if (found.empty()) {
        throw UsageError(fmt::format("{} holds no round trip; give one in ms a line", path));
    }
    std::ranges::sort(found);
    return found;
}

/// Horner's rule: the first coefficient belongs to the highest power.
template <size_t N> double polynomial(const std::array<double, N>& coefficients, double x) {
    double value = 0;
    for (const double one : coefficients) {
        value = value * x + one;
    }
    return value;
}

} // namespace

/// P. J. Acklam's rational approximation; its relative error is below 1.2e-9.
double normal_quantile(double share) {
    static constexpr std::array kNumerator{-3.969683028665376e+01, 2.209460984245205e+02,
                                           -2.759285104469687e+02, 1.383577518672690e+02,
                                           -3.066479806614716e+01, 2.506628277459239e+00};
    static constexpr std::array kDenominator{-5.447609879822406e+01, 1.615858368580409e+02,
                                             -1.556989798598866e+02, 6.680131188771972e+01,
                                             -1.328068155288572e+01, 1.0};
    static constexpr std::array kTailNumerator{-7.784894002430293e-03, -3.223964580411365e-01,
                                               -2.400758277161838e+00, -2.549732539343734e+00,
                                               4.374664141464968e+00,  2.938163982698783e+00};
    static constexpr std::array kTailDenominator{7.784695709041462e-03, 3.224671290700398e-01,
                                                 2.445134137142996e+00, 3.754408661907416e+00, 1.0};
    constexpr double kTail = 0.02425;
    if (share > 1 - kTail) {
        return -normal_quantile(1 - share);
    }
    if (share < kTail) {
        const double q = std::sqrt(-2 * std::log(std::max(share, 0x1p-54))); // of 0 there is none
        return polynomial(kTailNumerator, q) / polynomial(kTailDenominator, q);
    }
    const double q = share - 0.5;
    return q * polynomial(kNumerator, q * q) / polynomial(kDenominator, q * q);
}

RttDistribution rtt_distribution(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string_view kind = std::string_view(text).substr(0, colon);
    if (colon == std::string::npos ||
        (kind != "normal" && kind != "uniform" && kind != "lognormal")) {
        return [all = read_observed(text)](double share) {
            return to_nanoseconds(
                all[static_cast<size_t>(share * static_cast<double>(all.size()))]);
        };
    }
    const auto pair = parse_pair(std::string_view(text).substr(colon + 1),
                                 kind == "lognormal" ? kMostSigma : kMostRttMs);
    if (!pair || (kind == "uniform" && pair->first > pair->second)) {
        throw UsageError(fmt::format("--distribution {} is not a distribution; give "
                                     "normal:MEAN,SD, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA "
                                     "(0 to {} ms, SIGMA up to {}) or a file",
                                     text, kMostRttMs, kMostSigma));
    }
    const double first = pair->first;
    const double second = pair->second;
    if (kind == "normal") {
        return
            [=](double share) { return to_nanoseconds(first + second * normal_quantile(share)); };
    }
    if (kind == "uniform") {
        return [=](double share) { return to_nanoseconds(first + (second - first) * share); };
    }
    return [=](double share) {
        return to_nanoseconds(first * std::exp(second * normal_quantile(share)));
    };
}

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
