#pragma once
// Reads DNS messages from traces of any form, known by content. This folder is the only user of
// libtrace, libpcap and libarchive.

#include "core/trace/reassembly/message.hh" // IWYU pragma: export

#include <cstdint>
#include <memory>
#include <string>

namespace reprise::trace {

/// Yields every DNS message of a trace in file order, whatever the trace's form. Throws TraceError
/// on opening; later trouble (a cut or corrupt file) ends the messages and stands in trouble().
class Reader {
public:
    /// `path` "-" is standard input; pipes are read as well.
    explicit Reader(const std::string& path, const ReaderOptions& options = {});
    ~Reader();
    Reader(Reader&&) noexcept;
    Reader& operator=(Reader&&) noexcept;

    /// Next message; false at the end.
    bool next(Query& query);

    /// So far.
    [[nodiscard]] Counters counters() const;
    [[nodiscard]] std::uint64_t packets() const;

    /// Why reading ended before the end of a whole file, one line; empty where the file was whole.
    [[nodiscard]] const std::string& trouble() const;

    /// Share of the file's bytes read so far, 0 to 1, as a rough measure of progress; 0 where the
    /// size is unknown (a pipe).
    [[nodiscard]] double share_read() const;

    /// What was read, e.g. "pcapng, gzip, libpcap".
    [[nodiscard]] std::string description() const;

private:
    struct State;

    std::unique_ptr<State> state_;
};

} // namespace reprise::trace
