#pragma once
// A block of C-DNS as it stands in the file: tables, and items that name entries of them by index
// (RFC 8618 section 7.3). Nothing is checked here but the form; who uses an index checks it.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/trace/forms/cdns/cdns_cbor.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::trace {

/// A map of C-DNS with the keys 0 to `kSize` - 1 and numbers as values. `Key` names the keys; its
/// last name, kEnd, is their number.
template <typename Key> class CdnsNumbers {
public:
    static constexpr size_t kSize = static_cast<size_t>(Key::kEnd);

    void set(size_t key, std::int64_t value) {
        values_.at(key) = value;
        present_ |= 1U << key;
    }

    [[nodiscard]] bool has(Key key) const {
        return (present_ >> static_cast<size_t>(key) & 1U) != 0;
    }

    [[nodiscard]] std::int64_t get(Key key, std::int64_t otherwise = 0) const {
        return has(key) ? values_[static_cast<size_t>(key)] : otherwise;
    }

    [[nodiscard]] std::optional<std::int64_t> find(Key key) const {
        return has(key) ? std::optional(get(key)) : std::nullopt;
    }

private:
    std::array<std::int64_t, kSize> values_{};
    std::uint32_t present_ = 0;
};

/// Of a query and its response.
enum class CdnsItemKey : std::uint8_t {
    kTimeOffset, ///< ticks from the block's earliest time
    kClientAddress,
    kClientPort,
    kId,
    kSignature,
    kHopLimit,
    kResponseDelay, ///< ticks; may be negative
    kQueryName,
    kQuerySize,
    kResponseSize,
    kEnd,
};

/// Lists of what does not fit into the item.
enum class CdnsExtendedKey : std::uint8_t {
    kQuestions,
    kAnswers,
    kAuthorities,
    kAdditionals,
    kEnd
};

/// What many queries and responses have in common.
enum class CdnsSignatureKey : std::uint8_t {
    kServerAddress,
    kServerPort,
    kTransport,
    kRole, ///< of the server: stub, client, resolver, ...
    kFlags,
    kOpcode,
    kDnsFlags,
    kQueryRcode,
    kClassType,
    kQuestions,
    kAnswers,
    kAuthorities,
    kAdditionals,
    kEdnsVersion,
    kUdpSize,
    kOptData,
    kResponseRcode,
    kEnd,
};

enum class CdnsClassTypeKey : std::uint8_t { kType, kClass, kEnd };
enum class CdnsQuestionKey : std::uint8_t { kName, kClassType, kEnd };
enum class CdnsRecordKey : std::uint8_t { kName, kClassType, kTtl, kData, kEnd };
enum class CdnsMalformedKey : std::uint8_t {
    kTimeOffset,
    kClientAddress,
    kClientPort,
    kData,
    kEnd
};
enum class CdnsMalformedDataKey : std::uint8_t { kServerAddress, kServerPort, kTransport, kEnd };

struct CdnsItem {
    CdnsNumbers<CdnsItemKey> numbers;
    CdnsNumbers<CdnsExtendedKey> query_extended;
};

struct CdnsMalformedData {
    CdnsNumbers<CdnsMalformedDataKey> numbers;
    std::vector<std::uint8_t> payload;
};

/// Strings by index.
class CdnsStrings {
public:
    void read(CborReader& in) {
        in.string(bytes_);
        ends_.push_back(bytes_.size());
    }

    [[nodiscard]] size_t size() const { return ends_.size(); }

    [[nodiscard]] Bytes operator[](size_t index) const {
        const size_t begin = index == 0 ? 0 : ends_[index - 1];
        return Bytes(bytes_).subspan(begin, ends_[index] - begin);
    }

private:
    std::vector<std::uint8_t> bytes_;
    std::vector<size_t> ends_;
};

using CdnsList = std::vector<std::int64_t>;

struct CdnsBlock {
    std::int64_t earliest_seconds = 0; ///< since the epoch
    std::int64_t earliest_ticks = 0;
    std::uint64_t parameters = 0; ///< index into the preamble's

    CdnsStrings addresses;
    std::vector<CdnsNumbers<CdnsClassTypeKey>> class_types;
    CdnsStrings names; ///< names and data of records, in wire form
    std::vector<CdnsNumbers<CdnsSignatureKey>> signatures;
    std::vector<CdnsList> question_lists;
    std::vector<CdnsNumbers<CdnsQuestionKey>> questions;
    std::vector<CdnsList> record_lists;
    std::vector<CdnsNumbers<CdnsRecordKey>> records;
    std::vector<CdnsMalformedData> malformed_data;

    std::vector<CdnsItem> items;
    std::vector<CdnsNumbers<CdnsMalformedKey>> malformed;
};

struct CdnsPreamble {
    std::uint64_t major = 0;
    std::uint64_t minor = 0;
    std::vector<std::uint64_t> ticks_per_second; ///< of each set of block parameters
};

/// Reads up to the array of blocks. What is wrong stands in in.error().
CdnsPreamble read_cdns_preamble(CborReader& in);

/// Reads one block; of one with an error, what came before it.
CdnsBlock read_cdns_block(CborReader& in);

/// Nanoseconds since the epoch, or nothing where they do not fit. `offset` is in ticks.
std::optional<Nanoseconds> cdns_time(std::int64_t seconds, std::int64_t ticks, std::int64_t offset,
                                     std::uint64_t ticks_per_second);

/// The entry of a table, or null where the table has none.
template <typename T> const T* cdns_entry(const std::vector<T>& table, std::int64_t index) {
    const auto at = static_cast<std::uint64_t>(index);
    return index >= 0 && at < table.size() ? &table[at] : nullptr;
}

inline std::optional<Bytes> cdns_entry(const CdnsStrings& table, std::int64_t index) {
    const auto at = static_cast<std::uint64_t>(index);
    return index >= 0 && at < table.size() ? std::optional(table[at]) : std::nullopt;
}

} // namespace reprise::trace
