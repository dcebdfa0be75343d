#include "core/base/random.hh"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

namespace reprise {

// value = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m-1)/(m+1), |s| < 0.172,
// so s^21 / 21 < 1e-17.
double portable_log(double value) {
    int exponent = 0;
    double mantissa = std::frexp(value, &exponent);
    if (mantissa < std::numbers::sqrt2 / 2) {
        mantissa *= 2;
        --exponent;
    }
    const double s = (mantissa - 1) / (mantissa + 1);
    const double square = s * s;
    double sum = 0;
    for (int odd = 19; odd >= 1; odd -= 2) {
        sum = sum * square + 1.0 / odd;
    }
    return 2 * s * sum + exponent * std::numbers::ln2;
}

// value = k ln 2 + r with |r| <= ln 2 / 2; the Taylor series of e^r to r^16.
double portable_exp(double value) {
    const double k = std::floor(value / std::numbers::ln2 + 0.5);
    const double r = value - k * std::numbers::ln2;
    double sum = 1;
    for (int i = 16; i >= 1; --i) {
        sum = 1 + sum * r / i;
    }
    return std::ldexp(sum, static_cast<int>(k));
}

double portable_power(double base, double exponent) {
    return portable_exp(exponent * portable_log(base));
}

// Lemire's multiply-and-shift; a draw in the incomplete last stripe is thrown away.
std::uint64_t Random::below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    Wide product = Wide{engine_()} * bound;
    if (static_cast<std::uint64_t>(product) < bound) {
        const std::uint64_t threshold = (0 - bound) % bound;
        while (static_cast<std::uint64_t>(product) < threshold) {
            product = Wide{engine_()} * bound;
        }
    }
    return static_cast<std::uint64_t>(product >> 64U);
}

WeightedChoice::WeightedChoice(const std::vector<double>& weights) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const double scale = static_cast<double>(weights.size()) / total;
    std::vector<std::uint32_t> small;
    std::vector<std::uint32_t> large;
    for (std::uint32_t i = 0; i < weights.size(); ++i) {
        slots_.push_back({weights[i] * scale, i, i});
        (slots_[i].keep < 1 ? small : large).push_back(i);
    }
    while (!small.empty() && !large.empty()) {
        const std::uint32_t needy = small.back();
        const std::uint32_t rich = large.back();
        small.pop_back();
        slots_[needy].other = rich;
        slots_[rich].keep -= 1 - slots_[needy].keep;
        if (slots_[rich].keep < 1) {
            large.pop_back();
            small.push_back(rich);
        }
    }
}

// Of bursty arrivals' gaps, the short ones: with p of them of mean g/2p and the others of mean
// g/2(1-p), the mean is g and the squared coefficient of variation 1/2p(1-p) - 1.
Arrivals::Arrivals(Arrival kind, double rate, double cv)
    : kind_(kind), rate_(rate), short_share_((1 + std::sqrt((cv * cv - 1) / (cv * cv + 1))) / 2) {}

// Evenly spaced ones are computed from their number, so that no rounding adds up.
double Arrivals::next(Random& random) {
    const std::uint64_t number = number_++;
    const double gap = 1e9 / rate_;
    if (kind_ == Arrival::kFixed) {
        offset_ = static_cast<double>(number) * 1e9 / rate_;
    } else if (number > 0 && kind_ == Arrival::kPoisson) {
        offset_ += random.exponential(gap);
    } else if (number > 0) {
        const double part = random.chance(short_share_) ? short_share_ : 1 - short_share_;
        offset_ += random.exponential(gap / (2 * part));
    }
    return offset_;
}

std::vector<double> zipf_weights(size_t count, double exponent, double shift) {
    std::vector<double> weights(count);
    for (size_t i = 0; i < count; ++i) {
        weights[i] = portable_power(static_cast<double>(i + 1) + shift, -exponent);
    }
    return weights;
}

} // namespace reprise
