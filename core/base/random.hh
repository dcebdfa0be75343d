#pragma once
// Random numbers that are the same on every machine: std::mt19937_64 is defined to the bit, the
// standard library's distributions and the C library's log() are not, so both are replaced here by
// arithmetic that IEEE 754 defines exactly.

#include <cstdint>
#include <random>
#include <vector>

namespace reprise {

/// 2^64 divided by the golden ratio: steps that lie evenly however many there are.
inline constexpr std::uint64_t kGoldenStep = 0x9e3779b97f4a7c15U;

/// Spreads 64 bits over 64 bits, one to one (the finalizer of splitmix64, Steele, Lea, Flood 2014).
constexpr std::uint64_t mix_bits(std::uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}

/// Natural logarithm of a positive normal number, error below 1e-14, same bits everywhere.
double portable_log(double value);

/// e to the power `value`, for values between -700 and 700, relative error below 1e-13.
double portable_exp(double value);

/// `base` (positive) to the power `exponent`.
double portable_power(double base, double exponent);

class Random {
public:
    explicit Random(std::uint64_t seed) : engine_(seed) {}

    std::uint64_t bits() { return engine_(); }

    /// Uniform in [0, 1), 53 bits.
    double unit() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }

    /// Uniform in [0, bound), bound at least 1; without bias.
    std::uint64_t below(std::uint64_t bound);

    /// Uniform in [low, high].
    std::uint64_t between(std::uint64_t low, std::uint64_t high) {
        return low + below(high - low + 1);
    }

    /// True with probability `share`.
    bool chance(double share) { return unit() < share; }

    /// Exponentially distributed with this mean: the gaps of a Poisson process.
    double exponential(double mean) { return -mean * portable_log(1.0 - unit()); }

private:
    std::mt19937_64 engine_;
};

/// Draws an index with probability proportional to its weight, in constant time (the alias method,
/// Vose 1991). Memory: 16 bytes an index.
class WeightedChoice {
public:
    /// Weights must be finite and not negative, with a positive sum.
    explicit WeightedChoice(const std::vector<double>& weights);

    std::uint32_t draw(Random& random) const {
        const auto& slot = slots_[random.below(slots_.size())];
        return random.unit() < slot.keep ? slot.own : slot.other;
    }

private:
    struct Slot {
        double keep;
        std::uint32_t own;
        std::uint32_t other;
    };

    std::vector<Slot> slots_;
};

enum class Arrival : std::uint8_t { kPoisson, kFixed, kBursty };

/// When made-up queries come: as a Poisson process, evenly spaced, or bursty: then a gap is drawn
/// from one of two exponential distributions whose queries make up half of the time each (balanced
/// means), which gives gaps any standard deviation above their mean.
class Arrivals {
public:
    /// `rate` is in queries/s. `cv`, of bursty ones: standard deviation of the gaps over their
    /// mean, from 1.
    Arrivals(Arrival kind, double rate, double cv = 1);

    /// Nanoseconds from the first one, which draws nothing, to the next.
    double next(Random& random);

    [[nodiscard]] Arrival kind() const { return kind_; }

private:
    Arrival kind_;
    double rate_;
    double short_share_; ///< bursty: of the gaps, the short ones
    double offset_ = 0;  ///< of the latest
    std::uint64_t number_ = 0;
};

/// Zipf weights of `count` ranks: rank r (from 1) weighs (r + shift)^-exponent (with a shift it is
/// Mandelbrot's form). Not normalized.
std::vector<double> zipf_weights(size_t count, double exponent, double shift = 0);

} // namespace reprise
