#pragma once
// The subcommands of reprise-mutator: their options, and what is read, written and printed around
// the pure parts.

#include "core/trace/feed.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/synth/synth_options.hh"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise {
class Command;
}

namespace reprise::mutator {

// Each adds subcommands. Where one of them is given, parsing runs it and sets `status` to its exit
// status: 0, or 1 where a trace was cut, damaged or could not be read; what was good is written
// then. Parsing throws UsageError, rules::RuleError, TraceError and Error, and nothing is written.

/// All of them, of which one is required.
void add_commands(Command& app, int& status);

/// Traces in, a changed trace out.
void add_mutate(Command& app, int& status);

/// Leaves of a capture only what a replay has a use for: the queries over UDP, and the TCP segments
/// and fragments that only make sense together with others, of which some may lie in the next file.
/// Traces merged from reduced captures have the same queries and closes as those of the captures
/// themselves.
void add_reduce(Command& app, int& status);

void add_synth(Command& app, int& status);

// What they share.

/// The options of what reads one trace and writes one file.
struct TraceCommand {
    std::string trace;
    std::string output;
    std::vector<std::uint16_t> ports{53};
};

/// `output`: help of -o.
void add_files(Command& command, TraceCommand& files, const char* output);

/// What is said of a trace that was readable but holds nothing to work on.
std::string no_queries(const std::string& path, const trace::Feed& feed, std::uint64_t responses);

/// In place of a form of trace: the round trip of each source as a table for a delay line. Rows
/// `ADDRESS rtt_ms`, tab-separated, in order of appearance, behind a line that names them; a
/// source's first class counts, whatever its port. Throws Error at the end where no query has one.
std::unique_ptr<trace::QueryEncoder> make_rtt_encoder();

/// The options of `synth`. What is given explicitly wins over the profile, wherever it stands.
void add_synth_options(Command& command, SynthOptions& options);

} // namespace reprise::mutator
