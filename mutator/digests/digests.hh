#pragma once
// `reprise-mutator digests`: of an answers file (.ra) a row for each record: where it is, and
// numbers by which `reprise compare` tells equal answers and those of one kind.

#include "core/dns/message.hh"
#include "core/dns/name.hh"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise::mutator {

// What a reply says, as a number that is the same for replies that say the same.
//
// Servers write one answer in many ways: records in another order, names in another case or
// compressed otherwise. Whoever compares millions of answers looks at each kind of answer once; the
// number tells which are of one kind. Replies that say the same may have different numbers, never
// the other way round (but for two numbers of 64 bits that are equal by chance; whoever writes
// replies does not know the seed).

/// How much of the name that was asked counts.
struct Place {
    Name origin;         ///< names below it count by their last labels, others whole; in lower case
    unsigned labels = 0; ///< so many, without the root
};

class Contents {
public:
    explicit Contents(Place place, std::uint64_t seed = 0) : place_(place), seed_(seed) {}

    struct Numbers {
        std::uint64_t content = 0;
        std::uint64_t place = 0; ///< of the name; 0 where all of it is in the content

        bool operator==(const Numbers&) const = default;
    };

    /// Flags and records with their TTLs, and the types ANY, AXFR, IXFR. What was asked counts
    /// whole where the class is not IN, the name owns a record or lies outside of the zone. Replies
    /// to another question than the query's, and what is not whole, count by their bytes but the
    /// id.
    Numbers of(Bytes query, Bytes reply);

private:
    std::optional<Numbers> read(Bytes query, Bytes reply);
    bool add_records(const DnsHeader& header, const DnsQuestion& asked, Bytes reply);
    bool add_record(Cursor& in, Bytes reply, unsigned section, Name& owner);
    bool add_data(std::uint16_t type, Bytes reply, size_t from, size_t end);
    bool add_names(Bytes reply, size_t from, size_t end, unsigned names, size_t before,
                   size_t behind);

    [[nodiscard]] std::uint64_t hash(Bytes bytes) const;

    Place place_;
    std::uint64_t seed_;
    std::vector<std::uint8_t> scratch_; ///< a record in one form
    std::uint64_t records_ = 0;         ///< sum of those, so that their order does not count
    unsigned opts_ = 0;
    bool whole_name_ = false;
};

/// The bytes of a message but its id, as a number.
std::uint64_t message_hash(Bytes message, std::uint64_t seed = 0);

struct DigestsOptions {
    std::string answers;
    std::string output;
    std::string origin{}; ///< of the served zone; empty for none
    unsigned labels = 0;
    std::uint64_t seed = 0;
};

/// What the file begins with.
struct DigestsHeader {
    std::array<char, 8> magic{'R', 'P', 'R', 'D', 'I', 'G', '2', 0};
    std::uint64_t seed = 0; ///< rows of files with the same one can be compared
    std::array<std::uint64_t, 3> unused{};
};

static_assert(sizeof(DigestsHeader) == 40);

/// A row, as it lies in the file. See message_hash() and Contents; zeroes where there is no reply.
struct Digest {
    std::uint64_t sequence = 0;
    std::uint64_t at = 0; ///< where the record begins in the answers file
    std::uint64_t query = 0;
    std::uint64_t reply = 0;
    std::uint64_t content = 0;
    std::uint64_t place = 0;
    std::uint16_t flags = 0; ///< of the reply's header, with the numbers of its records
    std::uint16_t answers = 0;
    std::uint16_t authorities = 0;
    std::uint16_t reply_size = 0;
};

static_assert(sizeof(Digest) == 56);

/// Rows of the records before the first that is not whole. Returns the exit status 0. Throws
/// UsageError, Error.
int run_digests(const DigestsOptions& options);

} // namespace reprise::mutator
