#pragma once
// A querier's result files. A disk that refuses ends the writing, not the process: the first
// failure is kept for the caller to act on, later calls do nothing, and what is on disk stays
// readable.

#include "core/bytes.hh"
#include "core/clock.hh"
#include "core/result_file.hh"
#include "querier/hedges.hh"
#include "querier/slots.hh"
#include "querier/statistics.hh"

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>

namespace reprise::querier {

class Results {
public:
    /// Creates FOLDER/queries-HOST-N.rq and, where asked, answers-HOST-N.ra.
    void open(const std::string& folder, const RqHeader& header, bool answers);

    [[nodiscard]] bool is_open() const { return records_.has_value(); }

    /// The slot's record, and its query with the reply (empty = none) received at `realtime`.
    void write(const Slot& slot, Bytes reply, Nanoseconds realtime);

    /// Both ways of a hedged query, to hedges-HOST-N.csv.
    void write_hedge(const HedgeRow& row);

    /// Hands buffers to the kernel; for quiet moments.
    void flush();

    /// Records written since the last flush.
    [[nodiscard]] size_t unflushed() const { return unflushed_; }

    void finish(const Statistics& statistics, bool clean, const std::string& because);

    /// One line about the first failure; empty while there was none.
    [[nodiscard]] const std::string& failure() const { return failure_; }

private:
    template <typename Action> void guarded(const Action& action);

    std::optional<RqWriter> records_;
    std::optional<RaWriter> answers_;
    std::string hedges_path_;
    std::ofstream hedges_; ///< opened by the first row
    size_t unflushed_ = 0;
    std::string failure_;
};

} // namespace reprise::querier
