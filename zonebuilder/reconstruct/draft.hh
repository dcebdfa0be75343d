#pragma once
// Observations -> zones as far as they were seen: each RRset in the zone that it belongs to, one
// where there are several.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "zonebuilder/reconstruct/hierarchy.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/reconstruct/strings.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

/// An RRset of a zone.
struct DraftRrset {
    NameId owner = NameTable::kRoot;
    std::uint16_t type = 0;
    std::uint32_t ttl = 0;
    ContentId content = kNoId;
    ContentId signatures = kNoId;
    std::uint32_t observation = kNoId; ///< where it was seen; kNoId: it was made up
    std::string_view why{};            ///< it was made up
};

/// Two things were seen of which a zone can have one.
struct Conflict {
    NameId zone = NameTable::kRoot;
    std::uint32_t kept = kNoId;  ///< observation
    std::uint32_t other = kNoId; ///< observation
    std::string_view what;
};

/// A denial of something that the zone has.
struct Contradiction {
    std::uint32_t denial = 0;
    NameId zone = NameTable::kRoot;
};

struct Draft {
    NameId name = NameTable::kRoot;
    CutIndex cut = Hierarchy::kNone;
    std::vector<DraftRrset> rrsets{};     ///< sorted by the owner's key, then by type
    std::vector<ServerId> seen_serving{}; ///< answered with authority; sorted
    std::vector<std::uint32_t> denials{};

    [[nodiscard]] const DraftRrset* find(NameId owner, std::uint16_t type,
                                         const NameTable& names) const;
};

/// An observation that is in no zone.
struct Dropped {
    std::uint32_t observation = 0;
    std::string_view why;
};

struct Drafts {
    std::vector<Draft> zones; ///< sorted by the name's key; those of which something was seen
    std::vector<Conflict> conflicts;
    std::vector<Conflict> versions; ///< the same place, other records: at another time or server
    std::vector<Dropped> dropped;
};

Drafts make_drafts(const Observations& seen, const Hierarchy& hierarchy);

// Records that no capture has.

inline constexpr std::uint32_t kTtl = 3600; ///< of what is made up

/// Data of an A record that leads nowhere (RFC 5737).
inline constexpr std::string_view kNobody{"\xC0\x00\x02\x01", 4};

/// In wire form, as data of records has it.
std::string wire_of(const NameKey& name);

/// Data of a SOA record for a zone with this first server.
std::string soa_of(const NameKey& server);

/// Adds records to drafts, each with the reason why. What was made is in its zone after flush().
class Maker {
public:
    /// Both outlive it.
    Maker(Observations& seen, Drafts& drafts) : seen_(seen), drafts_(drafts) {}

    /// Unless the zone has such records or they were made before.
    void make(std::size_t zone, NameId owner, std::uint16_t type, ContentId content,
              std::uint32_t ttl, std::string_view why, ContentId signatures = kNoId);

    /// Of data in any order.
    ContentId content(std::vector<std::string> data);

    /// In a zone since the last flush().
    [[nodiscard]] const std::vector<DraftRrset>& made(std::size_t zone) { return extra_[zone]; }

    void flush();

private:
    Observations& seen_;
    Drafts& drafts_;
    std::unordered_map<std::size_t, std::vector<DraftRrset>> extra_; ///< of a zone
    std::set<std::tuple<std::size_t, NameId, std::uint16_t>> made_;
};

// What a zone needs to load and to be found, where the capture does not have it.

/// A name server's address that did not answer for a zone that was delegated to it.
struct LameServer {
    NameId zone = NameTable::kRoot;
    ServerId server = 0;
};

/// A name that servers refused; it lies in none of their zones.
struct Refused {
    NameId name = NameTable::kRoot;
    std::vector<ServerId> servers; ///< sorted
};

/// A zone whose answers no resolver can validate, though it is signed or its parent says so.
struct Unproven {
    NameId zone = NameTable::kRoot;
    std::string_view why;
};

struct Completed {
    Drafts drafts;
    std::vector<std::vector<IpAddress>> addresses; ///< of each zone's servers; sorted
    std::vector<LameServer> lame;
    std::vector<Refused> refused; ///< sorted by the name's key
    std::vector<Contradiction> contradictions;
    std::vector<NameId> unreachable; ///< zones without an address
    std::vector<Unproven> unproven;
};

/// Adds what is missing: zones above others, SOA and NS records, addresses of name servers,
/// delegations, what signatures need, names that exist without records; zones for servers that only
/// refuse, or that deny the zone's own name. Every record that it makes up has its reason.
Completed complete(Observations& seen, const Hierarchy& hierarchy, Drafts drafts);

/// Makes zones deny what was denied, as far as they can; what they cannot is in
/// `done.contradictions`. Refused names are in `done.refused`.
void add_denials(Observations& seen, Completed& done);

/// Adds to zones with recorded signatures what they need so that servers return those and denials.
/// None of it can be validated.
void add_proofs(Observations& seen, Completed& done);

} // namespace reprise::zonebuilder
