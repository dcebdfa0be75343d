#pragma once
// Keeps work that may become dear within a share of one core.

#include "core/base/clock.hh"

#include <algorithm>

namespace reprise::sampler {

/// An account in CPU time: it earns a share of every interval and is never in credit, so that work
/// is done at once while it is cheap and skipped until it has been earned where it was dear.
class Allowance {
public:
    Allowance(double share, Nanoseconds interval)
        : income_(static_cast<Nanoseconds>(share * static_cast<double>(interval))) {}

    /// Once an interval: whether the work may be done now.
    bool earn() {
        balance_ = std::min<Nanoseconds>(balance_ + income_, 0);
        return balance_ == 0;
    }

    /// What the work cost; less than an interval's income is for free.
    void spend(Nanoseconds cost) { balance_ -= cost; }

private:
    Nanoseconds income_;
    Nanoseconds balance_ = 0;
};

} // namespace reprise::sampler
