#pragma once
// DNS messages rebuilt from the entries of a C-DNS block.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/forms/cdns/cdns_block.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::trace {

/// What is counted of C-DNS. Each is an item (a query with its response, or one of both) unless its
/// comment says otherwise.
enum class CdnsNote : std::uint8_t {
    kBadIndex,       ///< names an entry that its table does not have: passed over
    kBadName,        ///< holds a name that is none: passed over
    kBadValue,       ///< holds a port, type or time that cannot be: passed over
    kNoSource,       ///< messages without client address: 0.0.0.0 or :: stands for it
    kNoDestination,  ///< messages without server address: an example address stands for it
    kNoTime,         ///< without time: the block's earliest stands for it
    kNoId,           ///< queries without id: 0 stands for it
    kNoName,         ///< queries without name, though they had one: they have no question
    kNoType,         ///< queries without type: A stands for it
    kSizeDiffers,    ///< queries whose size is not the one recorded
    kOtherTransport, ///< messages over DTLS or what is not known: taken as UDP
    kMalformed,      ///< messages kept as malformed
    kShortMessage,   ///< of these, shorter than a DNS header: passed over
    kEnd,
};

inline constexpr std::array<std::string_view, static_cast<size_t>(CdnsNote::kEnd)> kCdnsNotes{
    "cdns_bad_index",      "cdns_bad_name",     "cdns_bad_value",       "cdns_no_source",
    "cdns_no_destination", "cdns_no_time",      "cdns_no_id",           "cdns_no_name",
    "cdns_no_type",        "cdns_size_differs", "cdns_other_transport", "cdns_malformed",
    "short_message"};

using CdnsTally = NamedCounts<CdnsNote, kCdnsNotes>;

/// The two ends of an item and how it traveled; the source is the client.
struct CdnsEnds {
    Endpoint source;
    Endpoint destination;
    Transport transport = Transport::kUdp;
};

/// Where an address, a port and transport flags are told, if they are.
struct CdnsEndFields {
    std::optional<std::int64_t> client_address;
    std::optional<std::int64_t> client_port;
    std::optional<std::int64_t> server_address;
    std::optional<std::int64_t> server_port;
    std::optional<std::int64_t> transport;
};

/// Nothing where an index or a port is bad, which is counted.
std::optional<CdnsEnds> cdns_ends(const CdnsBlock& block, const CdnsEndFields& fields,
                                  CdnsTally& tally);

/// Nanoseconds since the epoch, or nothing where they do not fit. `offset` is in ticks.
std::optional<Nanoseconds> cdns_time(std::int64_t seconds, std::int64_t ticks, std::int64_t offset,
                                     std::uint64_t ticks_per_second);

/// What an item's signature says; one without fields where it has none.
using CdnsSignature = CdnsNumbers<CdnsSignatureKey>;

/// Nothing where the index is bad.
std::optional<CdnsSignature> cdns_signature(const CdnsBlock& block, const CdnsItem& item);

bool cdns_has_query(const CdnsSignature& signature);
bool cdns_has_response(const CdnsItem& item, const CdnsSignature& signature);

/// Builds the query of an item in `out`. False where it cannot be built, which is counted.
bool build_cdns_query(const CdnsBlock& block, const CdnsItem& item, const CdnsSignature& signature,
                      std::vector<std::uint8_t>& out, CdnsTally& tally);

/// Header and question of the response (and an OPT record where the rcode needs one).
bool build_cdns_response(const CdnsBlock& block, const CdnsItem& item,
                         const CdnsSignature& signature, std::vector<std::uint8_t>& out,
                         CdnsTally& tally);

} // namespace reprise::trace
