#include "proxy/delay/rtt_distribution.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "proxy/delay/rtt_table.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace reprise::proxy {
namespace {

constexpr double kMostSigma = 10;

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

/// Horner's rule: the first coefficient belongs to the highest power.
template <size_t N> double polynomial(const std::array<double, N>& coefficients, double x) {
    double value = 0;
    for (const double one : coefficients) {
        value = value * x + one;
    }
    return value;
}

template <typename... Cases> struct Overloaded : Cases... {
    using Cases::operator()...;
};

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
        const double q = std::sqrt(-2 * std::log(share));
        return polynomial(kTailNumerator, q) / polynomial(kTailDenominator, q);
    }
    const double q = share - 0.5;
    return q * polynomial(kNumerator, q * q) / polynomial(kDenominator, q * q);
}

RttDistribution::RttDistribution(const std::string& text) : shape_(parse(text)) {}

RttDistribution::Shape RttDistribution::parse(const std::string& text) {
    const size_t colon = text.find(':');
    const std::string_view kind = std::string_view(text).substr(0, colon);
    if (colon == std::string::npos ||
        (kind != "normal" && kind != "uniform" && kind != "lognormal")) {
        return read(text);
    }
    const auto pair = parse_pair(std::string_view(text).substr(colon + 1),
                                 kind == "lognormal" ? kMostSigma : kMostRttMs);
    if (!pair || (kind == "uniform" && pair->first > pair->second)) {
        throw UsageError(fmt::format("--distribution {} is not a distribution; give "
                                     "normal:MEAN,SD, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA "
                                     "(0 to {} ms, SIGMA up to {}) or a file",
                                     text, kMostRttMs, kMostSigma));
    }
    const auto [first, second] = *pair;
    if (kind == "normal") {
        return Normal{first, second};
    }
    if (kind == "uniform") {
        return Uniform{first, second};
    }
    return Lognormal{first, second};
}

RttDistribution::Observed RttDistribution::read(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw UsageError(fmt::format("--distribution {} cannot be opened: {}; give a file of "
                                     "round trips or normal:MEAN,SD, uniform:LOW,HIGH, "
                                     "lognormal:MEDIAN,SIGMA",
                                     path, std::generic_category().message(errno)));
    }
    Observed found;
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        const auto cells = split_cells(line, 1);
        if (cells.empty()) {
            continue;
        }
        const auto value =
            cells.size() == 1 ? parse_up_to(cells.front(), kMostRttMs) : std::nullopt;
        if (!value) {
            throw UsageError(
                fmt::format("{}:{}: '{:.40}' is not a time; give one of 0 to {} ms a line", path,
                            number, line, kMostRttMs));
        }
        found.push_back(*value);
    }
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

Nanoseconds RttDistribution::quantile(double share) const {
    return to_nanoseconds(quantile_ms(share));
}

double RttDistribution::quantile_ms(double share) const {
    const double inside = std::max(share, 0x1p-54); // the tails' logarithms want more than 0
    return std::visit(
        Overloaded{
            [&](const Normal& n) { return n.mean + n.deviation * normal_quantile(inside); },
            [&](const Uniform& u) { return u.low + (u.high - u.low) * share; },
            [&](const Lognormal& l) {
                return l.median * std::exp(l.sigma * normal_quantile(inside));
            },
            [&](const Observed& o) {
                return o[static_cast<size_t>(share * static_cast<double>(o.size()))];
            },
        },
        shape_);
}

} // namespace reprise::proxy
