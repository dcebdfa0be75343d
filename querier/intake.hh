#pragma once
// Blocks from the parent become scheduled queries, a few at a time, so that a block of 256 records
// delays no query that is due.

#include "core/bytes.hh"
#include "core/record.hh"
#include "querier/replayer.hh"

#include <string>

namespace reprise::querier {

class Intake {
public:
    /// The next block; the one before must be used up.
    void begin(std::string records);

    /// A block is not used up yet.
    [[nodiscard]] bool busy() const { return busy_; }

    /// Hands some records on. What is wrong with the block, or empty.
    std::string step(Replayer& replayer);

private:
    std::string records_;
    RecordReader reader_{Bytes{}};
    bool busy_ = false;
};

} // namespace reprise::querier
