#pragma once
// What the queriers' sums say of a run as a whole.

#include "core/wire/counts.hh"

#include <string>
#include <vector>

namespace reprise::controller {

struct Verdict {
    std::vector<std::string> because;  ///< why the run is not clean
    std::vector<std::string> warnings; ///< what makes it no less clean
};

/// Pure. `late_ms`: what Counts::sent_late was counted by.
Verdict judge_counts(const Counts& counts, double late_ms);

} // namespace reprise::controller
