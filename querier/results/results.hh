#pragma once
// A querier's result files. Room for the records of all queries that were taken and have not ended
// is held on the disk, so that a disk which others fill costs no record: the failure is told while
// there is still room to end. A disk that refuses for good ends the writing, not the process: the
// first failure is kept for the caller to act on, later calls do nothing, and what is on disk stays
// readable.

#include "core/base/output_file.hh"
#include "core/wire/counts.hh"
#include "core/wire/result_file.hh"
#include "querier/schedule/hedges.hh"
#include "querier/schedule/pending_queries.hh"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::querier {

/// Everything a querier counts, and what else its result file tells.
struct Statistics : Counts, ConnectionCounts, QuerierCounts {
    using Failure = std::pair<std::string, std::uint64_t>;

    /// Why connections with queries on them ended badly, in the order the reasons first came.
    std::vector<Failure> failures;
    std::vector<std::string> warnings; ///< what makes a clean run say less than it seems to

    /// Adds one to `failures`.
    void count_failure(std::string_view reason);

    /// Adds one end of a query.
    void count_end(Status status);
};

/// The trailing JSON of a .rq file (docs/formats.md); reads this process's CPU time and memory.
std::string statistics_json(const Statistics& statistics, bool clean, const std::string& because);

class Results {
public:
    /// Creates FOLDER/queries-HOST-N.rq and, where asked, answers-HOST-N.ra.
    void open(const std::string& folder, const RqHeader& header, bool answers);

    [[nodiscard]] bool is_open() const { return records_.has_value(); }

    /// The query's record, and its query with the reply (empty = none) received at `realtime`.
    void write(const PendingQuery& pending, Bytes reply, Nanoseconds realtime);

    /// Both ways of a hedged query, to hedges-HOST-N.csv.
    void write_hedge(const HedgeRow& row);

    /// Hands buffers to the kernel, and holds room for so many more queries; for quiet moments.
    void flush(std::uint64_t expected);

    /// Records written since the last flush.
    [[nodiscard]] size_t unflushed() const { return unflushed_; }

    /// Returns when all is on the disk, which may take seconds. Touches nothing but the files.
    void finish(const Statistics& statistics, bool clean, const std::string& because);

    /// One line about the first failure; empty while there was none.
    [[nodiscard]] const std::string& failure() const { return failure_; }

private:
    /// Does something; false where that fails, which is noted.
    template <typename Action> bool attempt(const Action& action);
    /// Does something with the file, where there is one; closes it where the disk refuses that.
    template <typename File, typename Action>
    void use(std::optional<File>& file, const Action& action);

    std::optional<RqWriter> records_;
    std::optional<RaWriter> answers_;
    std::string hedges_path_;          ///< until the first row
    std::optional<AppendFile> hedges_; ///< opened by the first row
    size_t unflushed_ = 0;
    std::string failure_;
};

} // namespace reprise::querier
