#pragma once
// `reprise-mutator digests`: of an answers file (.ra) a row of numbers for each record, by which
// `reprise compare` tells equal answers and those of one kind.

#include <array>
#include <cstdint>
#include <string>

namespace reprise::mutator {

struct DigestsOptions {
    std::string answers;
    std::string output;
    std::string origin{}; ///< of the served zone; empty for none
    unsigned labels = 0;
    std::uint64_t seed = 0;
};

/// What the file begins with.
struct DigestsHeader {
    std::array<char, 8> magic{'R', 'P', 'R', 'D', 'I', 'G', '1', 0};
    std::uint64_t seed = 0; ///< rows of files with the same one can be compared
    std::array<std::uint64_t, 3> unused{};
};

static_assert(sizeof(DigestsHeader) == 40);

/// A row, as it lies in the file. See message_hash() and Contents; zeroes where there is no reply.
struct Digest {
    std::uint64_t query = 0;
    std::uint64_t reply = 0;
    std::uint64_t content = 0;
    std::uint64_t place = 0;
    std::uint16_t flags = 0; ///< of the reply's header, with the numbers of its records
    std::uint16_t answers = 0;
    std::uint16_t authorities = 0;
    std::uint16_t reply_size = 0;
};

static_assert(sizeof(Digest) == 40);

/// Rows of the records before the first that is not whole. Returns the exit status 0. Throws
/// UsageError, Error.
int run_digests(const DigestsOptions& options);

} // namespace reprise::mutator
