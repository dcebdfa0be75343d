#pragma once
// Reads .rq and .ra files back, checking everything a reader can check.

#include "core/wire/result_file.hh"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::querier::testing {

struct RqContent {
    std::vector<RqRecord> records; ///< by sequence
    std::string statistics;        ///< JSON
    bool whole = false;            ///< with a footer whose count and checksum are right
};

RqContent read_rq(const std::string& path);

struct AnswerContent {
    std::uint64_t sequence = 0;
    Nanoseconds time = 0;
    std::vector<std::uint8_t> query;
    std::vector<std::uint8_t> reply;
};

/// By sequence. Throws where the file is not whole.
std::vector<AnswerContent> read_ra(const std::string& path);

} // namespace reprise::querier::testing
