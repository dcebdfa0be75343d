#pragma once
// Round trips drawn from a distribution: by quantile, so that a hash of an address draws its own.

#include "core/base/clock.hh"

#include <string>
#include <variant>
#include <vector>

namespace reprise::proxy {

class RttDistribution {
public:
    /// `normal:MEAN,SD`, `uniform:LOW,HIGH`, `lognormal:MEDIAN,SIGMA` (times in ms, SIGMA of the
    /// natural logarithm), or the name of a file of observed round trips in ms, one a line (#
    /// begins a comment), of which each is as likely as the others. Throws UsageError.
    explicit RttDistribution(const std::string& text);

    /// The round trip below which a share of all lie (in [0, 1)): never negative, never above
    /// kMostRttMs.
    [[nodiscard]] Nanoseconds quantile(double share) const;

private:
    struct Normal {
        double mean;
        double deviation;
    };

    struct Uniform {
        double low;
        double high;
    };

    struct Lognormal {
        double median;
        double sigma;
    };

    using Observed = std::vector<double>; ///< ms, ascending, not empty
    using Shape = std::variant<Normal, Uniform, Lognormal, Observed>;

    static Shape parse(const std::string& text);
    static Observed read(const std::string& path);
    [[nodiscard]] double quantile_ms(double share) const;

    Shape shape_;
};

/// The standard normal distribution's value below which a share (0 to 1, neither of them) lies.
double normal_quantile(double share);

} // namespace reprise::proxy
