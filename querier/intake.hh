#pragma once
// Blocks from the parent become scheduled queries, a few at a time, so that a block of 256 records
// delays no query that is due.

#include "core/bytes.hh"
#include "core/record.hh"
#include "querier/replayer.hh"

#include <cstdint>
#include <optional>
#include <string>

namespace reprise::querier {

class Intake {
public:
    /// The next block; the one before must be used up.
    void begin(std::string records);

    /// A block is not used up yet.
    [[nodiscard]] bool busy() const { return reader_.has_value(); }

    /// Hands some records on. What is wrong with the block, or empty.
    std::string step(Replayer& replayer);

private:
    std::string records_;
    std::optional<RecordReader> reader_;
};

} // namespace reprise::querier
