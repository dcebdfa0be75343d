#pragma once
// Samples of the host it runs in and of process trees, as lines of CSV.

#include "cli/native/allowance.hh"
#include "cli/native/process_tree.hh"
#include "cli/native/tcp_states.hh"
#include "core/clock.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::sampler {

/// A process tree to watch, by the number of its first process.
struct Watched {
    std::string name;
    Pid pid = 0;
};

/// NAME=PID. Throws UsageError.
Watched parse_watched(const std::string& text);

/// The heading line, with its end.
std::string columns();

class Sampler {
public:
    Sampler(std::vector<Watched> watched, Nanoseconds interval);

    /// One line for each watched tree. `exact`: nothing is left out for its price.
    std::string sample(bool exact);

private:
    std::string host_part(bool exact);
    std::uint64_t share_of(size_t index, const std::vector<Pid>& pids, bool exact);

    std::vector<Watched> watched_;
    TcpCounter tcp_;
    std::vector<Allowance> pss_allowance_;
    std::vector<std::uint64_t> pss_;
};

} // namespace reprise::sampler
