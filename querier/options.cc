#include "querier/options.hh"

#include "core/base/error.hh"
#include "core/base/numbers.hh"
#include "core/base/prefix.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sched.h>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::querier {
namespace {

/// "2" or "2-5" into `out`; false where it is neither.
bool add_range(std::string_view text, std::vector<unsigned>& out) {
    const size_t dash = text.find('-');
    unsigned first = 0;
    unsigned last = 0;
    if (!parse_number(text.substr(0, dash), first) ||
        !parse_number(dash == std::string_view::npos ? text : text.substr(dash + 1), last) ||
        last < first || last >= CPU_SETSIZE) {
        return false;
    }
    for (unsigned cpu = first; cpu <= last; ++cpu) {
        out.push_back(cpu);
    }
    return true;
}

} // namespace

std::vector<unsigned> parse_cpus(const std::string& text) {
    std::vector<unsigned> cpus;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (size_t at = 0; at <= text.size();) {
        const size_t comma = std::min(text.find(',', at), text.size());
        if (!add_range(std::string_view(text).substr(at, comma - at), cpus)) {
            throw UsageError(
                fmt::format("--cpus {}: not a list of processors; give e.g. 0,2-3", text));
        }
        at = comma + 1;
    }
    for (const unsigned cpu : cpus) {
        if (!CPU_ISSET(cpu, &allowed)) {
            throw UsageError(fmt::format(
                "--cpus {}: processor {} is not there or not ours; see `nproc` and `taskset -p $$`",
                text, cpu));
        }
    }
    return cpus;
}

Prefix parse_prefix(const std::string& text) {
    const auto prefix = Prefix::parse_network(text);
    if (!prefix || text.find('/') == std::string::npos) {
        throw UsageError(
            fmt::format("--source-prefix {}: not ADDRESS/BITS with the host bits zero; "
                        "give e.g. 10.1.0.0/16 or fd00:1::/64",
                        text));
    }
    return *prefix;
}

} // namespace reprise::querier
