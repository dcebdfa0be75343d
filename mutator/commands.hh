#pragma once
// The subcommands of reprise-mutator: reading, writing and printing around the pure parts.

#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::trace {
class Feed;
}

namespace reprise::mutator {

struct InfoOptions {
    std::string trace;
    std::vector<std::uint16_t> ports{53};
    bool json = false;
    std::string json_file{}; ///< written beside what is printed; empty for none
};

struct AnswersOptions {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
    double window_s = 10; ///< trace time a query waits for its response
};

/// Each returns the exit status: 0, or 1 where the trace was cut or holds no query. Throws
/// UsageError, TraceError, Error.
int run_info(const InfoOptions& options);
int run_answers(const AnswersOptions& options);
int run_synth(const SynthOptions& options, const std::string& output);

/// What is said of a trace that was readable but holds nothing to work on.
std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses);

} // namespace reprise::mutator
