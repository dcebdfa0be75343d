#pragma once
// The Reader of the replay: turns a trace's messages into numbered queries and says what is left
// out and why.

#include "controller/options.hh"
#include "core/query.hh"
#include "core/trace/reader.hh"

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <unordered_map>

namespace reprise::controller {

/// Why a query of the trace is not handed to a querier; empty: it is.
/// `opcode`: UPDATE and NOTIFY change servers (unless all_opcodes); `no_ipv4_server`,
/// `no_ipv6_server`.
std::string skip_reason(const trace::Message& message, const Servers& servers, bool all_opcodes);

/// Numbers source addresses in order of appearance and writes them to sources.csv. Memory: about
/// 100 bytes a source.
class SourceTable {
public:
    /// Throws SystemError where the file cannot be written.
    explicit SourceTable(const std::string& path);

    std::uint32_t id_of(const IpAddress& address);

    [[nodiscard]] size_t size() const { return ids_.size(); }

    /// Flushes what is new; throws SystemError where the disk is full.
    void flush();

private:
    std::string path_;
    std::ofstream file_;
    std::unordered_map<IpAddress, std::uint32_t> ids_;
    size_t flushed_ = 0; ///< sources already in the file
};

class TraceFeed {
public:
    /// Throws trace::TraceError where the trace cannot be read at all.
    TraceFeed(const Options& options, const Servers& servers);

    /// Next query to hand out; false at the end. The message is good until the next call.
    bool next(Query& query);

    /// Queries read so far, skipped ones included.
    [[nodiscard]] std::uint64_t read() const { return read_; }

    [[nodiscard]] std::uint64_t responses() const { return responses_; }

    [[nodiscard]] const std::map<std::string, std::uint64_t>& skipped() const { return skipped_; }

    /// Sum over skipped().
    [[nodiscard]] std::uint64_t skips() const { return skips_; }

    [[nodiscard]] const trace::Reader& reader() const { return reader_; }

    [[nodiscard]] size_t sources() const { return sources_.size(); }

    /// Hands new sources to the file; throws SystemError where the disk is full.
    void flush_sources() { sources_.flush(); }

private:
    trace::Reader reader_;
    Servers servers_;
    bool all_opcodes_;
    SourceTable sources_;
    Nanoseconds first_ = 0;
    bool handed_any_ = false;
    std::uint64_t read_ = 0;
    std::uint64_t responses_ = 0;
    std::uint64_t skips_ = 0;
    std::map<std::string, std::uint64_t> skipped_;
};

} // namespace reprise::controller
