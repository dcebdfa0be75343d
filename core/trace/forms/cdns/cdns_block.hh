#pragma once
// C-DNS as it stands in the file (RFC 8618 section 7.3): blocks of tables, and of items that name
// entries of them by index. The maps' keys, the shapes by which they are read, and the messages
// that items stand for. Shapes check nothing else: who uses an index checks it.

#include "core/trace/forms/cdns/cdns_cbor.hh"
#include "core/trace/reassembly/options.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::trace {

enum class CdnsPreambleKey : std::uint8_t { kMajor, kMinor, kParameters = 3 };

enum class CdnsBlockKey : std::uint8_t { kPreamble, kTables = 2, kItems = 3, kMalformed = 5 };

enum class CdnsBlockPreambleKey : std::uint8_t {
    kEarliestTime, ///< seconds since the epoch and ticks
    kParameters,   ///< index into the file's
};

enum class CdnsTableKey : std::uint8_t {
    kAddresses,
    kClassTypes,
    kNames, ///< names and data of records, in wire form
    kSignatures,
    kQuestionLists,
    kQuestions,
    kRecordLists,
    kRecords,
    kMalformedData,
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
    kQueryExtended = 11, ///< lists of further questions, answers, authorities, additionals
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
};

enum class CdnsClassTypeKey : std::uint8_t { kType, kClass };
enum class CdnsRecordKey : std::uint8_t { kName, kClassType, kTtl, kData }; ///< or a question
enum class CdnsMalformedKey : std::uint8_t { kData = 3 };        ///< before it as CdnsItemKey
enum class CdnsMalformedDataKey : std::uint8_t { kPayload = 3 }; ///< as CdnsSignatureKey

inline constexpr CborShape kCdnsStrings = cbor_array_of(kCborString);
inline constexpr CborShape kCdnsIndexes = cbor_array_of(kCborNumber);
inline constexpr CborShape kCdnsPair = cbor_map_of(2);
inline constexpr CborShape kCdnsSignature = cbor_map_of(17);
inline constexpr CborShape kCdnsFour = cbor_map_of(4);
inline constexpr std::array kCdnsPayload{kCborString};
inline constexpr CborShape kCdnsMalformedData = cbor_map_of(3, kCdnsPayload);
inline constexpr std::array kCdnsTables{
    kCdnsStrings,
    cbor_array_of(kCdnsPair), // class and type
    kCdnsStrings,
    cbor_array_of(kCdnsSignature),
    cbor_array_of(kCdnsIndexes),
    cbor_array_of(kCdnsPair), // questions
    cbor_array_of(kCdnsIndexes),
    cbor_array_of(kCdnsFour), // records
    cbor_array_of(kCdnsMalformedData),
};
inline constexpr std::array kCdnsBlockPreamble{kCdnsIndexes, kCborNumber};
inline constexpr std::array kCdnsItemRest{CborShape{}, kCdnsFour};
inline constexpr CborShape kCdnsItem = cbor_map_of(10, kCdnsItemRest);
inline constexpr std::array kCdnsBlockParts{
    cbor_map_of(0, kCdnsBlockPreamble), CborShape{}, cbor_map_of(0, kCdnsTables),
    cbor_array_of(kCdnsItem),           CborShape{}, // events of addresses
    cbor_array_of(kCdnsFour),
};
inline constexpr CborShape kCdnsBlock = cbor_map_of(0, kCdnsBlockParts);

/// Of storage parameters, which are the first of a block's parameters, only the first is read: the
/// ticks per second.
inline constexpr std::array kCdnsStorage{cbor_map_of(1)};
inline constexpr CborShape kCdnsParameters = cbor_map_of(0, kCdnsStorage);
inline constexpr std::array kCdnsPreambleRest{CborShape{}, cbor_array_of(kCdnsParameters)};
inline constexpr CborShape kCdnsPreamble = cbor_map_of(2, kCdnsPreambleRest);

/// A query and its response, or a malformed message.
struct CdnsItem {
    CborValue tables; ///< of its block
    CborValue item;
    CborValue common; ///< its signature, or the message's data; nothing where there is none
};

/// Nanoseconds since the epoch, or nothing where they do not fit. All but the seconds are ticks.
std::optional<Nanoseconds> cdns_time(std::int64_t seconds, std::int64_t ticks, std::int64_t offset,
                                     std::int64_t delay, std::int64_t ticks_per_second);

/// Who asked whom, and how. False where an index or a port is bad, which is counted.
bool read_cdns_ends(const CdnsItem& item, Query& query, Counters& counters);

/// Replaces `out` by the query, or by the response. False where it cannot be built, which is
/// counted.
bool build_cdns_message(const CdnsItem& item, bool response, std::vector<std::uint8_t>& out,
                        Counters& counters);

} // namespace reprise::trace
