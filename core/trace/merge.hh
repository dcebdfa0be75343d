#pragma once
// Several files as one trace.
//
// Files are merged by the time at their head, and files with the same time in the order in which
// they were given; that is the same as by the latest time each has shown so far, which Chunk's
// entries carry. The packets of all captures meet in one Assembler, so that a TCP stream or a
// datagram whose parts lie in different files is put together. Because entries come in the order of
// their keys, whoever read which chunk when makes no difference.
//
// A file is wanted only when the merge has come to its first time, so that of thousands of rotated
// files few are open.

#include "core/base/clock.hh"
#include "core/trace/batch.hh"
#include "core/trace/chunk.hh"
#include "core/trace/reassembly/assembler.hh"
#include "core/trace/reassembly/options.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

namespace reprise::trace {

class Merge {
public:
    struct File {
        Nanoseconds first = 0; ///< not later than the key of its first entry
        /// Files of one space number their connections together: all captures, and each other file.
        size_t space = 0;
    };

    enum class Step : std::uint8_t {
        kFull,    ///< the batch is
        kStarved, ///< the next chunk of wanted() is needed
        kEnd,
    };

    /// `spaces`: number of them.
    Merge(const std::vector<File>& files, size_t spaces, const ReaderOptions& options,
          Responses responses);

    /// Adds what comes next.
    Step next(Batch& batch);

    [[nodiscard]] size_t wanted() const { return heads_.top().second; }

    /// The next chunk of wanted().
    void give(std::shared_ptr<const Chunk> chunk);

    /// What was not yielded or was special, so far.
    [[nodiscard]] Counters counters() const;

    /// Over TCP, left out.
    [[nodiscard]] std::uint64_t responses() const { return left_out_; }

private:
    /// Latest time shown and number of a file.
    using Head = std::pair<Nanoseconds, size_t>;

    struct State {
        size_t space = 0;
        std::shared_ptr<const Chunk> chunk; ///< null: none at hand
        size_t at = 0;                      ///< its next entry
    };

    bool choose();
    void advance(Batch& batch);
    bool pop_assembled(Batch& batch);
    void leave_chunk();
    [[nodiscard]] std::uint64_t number(std::uint64_t connection, size_t space) const;

    static constexpr size_t kNone = SIZE_MAX;

    size_t spaces_;
    std::vector<State> files_;
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_; ///< all but `current_`
    size_t current_ = kNone;
    Assembler assembler_;
    Responses responses_;
    std::uint64_t left_out_ = 0;
    bool finished_ = false;
    Tally tally_;
    Counters counters_;
};

} // namespace reprise::trace
