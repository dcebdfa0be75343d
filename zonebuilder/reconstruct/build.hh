#pragma once
// Captures -> zones: what is seen, whom to believe, which zone it belongs to, what is missing, and
// all of it as texts.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/trace/feed.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
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

// Which zones there are, and who speaks for each.

using CutIndex = std::uint32_t;

/// A zone that somebody told of; it need not be built.
struct Cut {
    NameId name = NameTable::kRoot;
    std::vector<NameId> targets{};    ///< of its NS records, the parent's and its own; sorted
    std::vector<ServerId> servers{};  ///< that may speak for it; sorted
    std::vector<ServerId> unlisted{}; ///< of them, those that no NS record leads to; sorted
    bool delegated = false;           ///< a server of a zone above refers to it
    bool claimed = false;             ///< one of its servers showed its name
    bool assumed = false;             ///< nobody named it: it stands for answers without a SOA
};

/// A server claimed a zone, but was asked only for names in lower zones that it serves.
struct Distrust {
    ServerId server = 0;
    NameId zone = NameTable::kRoot;
    Nanoseconds time = 0;
};

class Hierarchy {
public:
    static constexpr CutIndex kNone = 0xffffffff;

    /// Finds out whom to believe; see hierarchy.cc. `observations` must stay where it is.
    explicit Hierarchy(Observations& observations);

    [[nodiscard]] const std::vector<Cut>& cuts() const { return cuts_; }

    [[nodiscard]] CutIndex at(NameId name) const {
        return name < cut_at_.size() ? cut_at_[name] : kNone;
    }

    /// The lowest zone that encloses the name, kNone where there is none.
    [[nodiscard]] CutIndex enclosing(NameId name) const;

    /// The lowest one that the server may speak for.
    [[nodiscard]] CutIndex enclosing_of(ServerId server, NameId name) const;

    /// Whether the server speaks for a zone that encloses the name.
    [[nodiscard]] bool trusts(ServerId server, NameId name) const {
        return enclosing_of(server, name) != kNone;
    }

    [[nodiscard]] bool serves(ServerId server, CutIndex cut) const;

    /// Of a name server, from glue or its own zone; sorted.
    [[nodiscard]] const std::vector<IpAddress>& addresses(NameId target) const;

    [[nodiscard]] const std::vector<Distrust>& distrusted() const { return distrusted_; }

    /// Name servers of zones and addresses of name servers beyond what a zone or server may
    /// have.
    [[nodiscard]] std::uint64_t over_limit() const { return over_limit_; }

private:
    class Discovery;

    std::vector<Cut> cuts_;
    std::vector<CutIndex> cut_at_;               ///< of a NameId
    std::vector<std::vector<CutIndex>> cuts_of_; ///< of a ServerId; sorted
    std::unordered_map<NameId, std::vector<IpAddress>> addresses_;
    std::vector<Distrust> distrusted_;
    std::uint64_t over_limit_ = 0;
    const NameTable* names_;
};

// Observations -> zones as far as they were seen: each RRset in the zone that it belongs to, one
// where there are several.

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
    std::vector<IpAddress> addresses{}; ///< of its servers; sorted; of complete()
    std::string file{};                 ///< what it is written to
};

/// An observation that is in no zone.
struct Dropped {
    std::uint32_t observation = 0;
    std::string_view why;
};

/// A name server's address that did not answer for a zone that was delegated to it.
struct LameServer {
    NameId zone = NameTable::kRoot;
    ServerId server = 0;
};

/// A zone whose answers no resolver can validate, though it is signed or its parent says so.
struct Unproven {
    NameId zone = NameTable::kRoot;
    std::string_view why;
};

struct Drafts {
    std::vector<Draft> zones; ///< sorted by the name's key; those of which something was seen
    std::vector<Conflict> conflicts;
    std::vector<Conflict> versions; ///< the same place, other records: at another time or server
    std::vector<Dropped> dropped;
    // Of complete():
    std::vector<LameServer> lame;
    /// Names that servers refused; they lie in none of their zones.
    std::map<NameKey, std::set<IpAddress>> refused;
    std::vector<Contradiction> contradictions;
    std::vector<NameId> unreachable; ///< zones without an address
    std::vector<Unproven> unproven;
};

Drafts make_drafts(Observations& seen, const Hierarchy& hierarchy);

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
    Maker(Observations& seen, Drafts& drafts)
        : seen_(seen), names_(seen.names()), drafts_(drafts) {}

protected:
    /// The zone's records of a type at a name; null where it has none.
    [[nodiscard]] const DraftRrset* find(const Draft& zone, NameId owner, std::uint16_t type) const;

    /// Unless the zone has such records or they were made before.
    void make(std::size_t zone, NameId owner, std::uint16_t type, ContentId content,
              std::uint32_t ttl, std::string_view why, ContentId signatures = kNoId);

    /// Of data in any order.
    ContentId content(std::vector<std::string> data);

    void flush();

    std::vector<Draft>& zones() { return drafts_.zones; }

    Observations& seen_;
    NameTable& names_;
    Drafts& drafts_;

private:
    std::unordered_map<std::size_t, std::vector<DraftRrset>> extra_; ///< of a zone
    std::set<std::tuple<std::size_t, NameId, std::uint16_t>> made_;
};

/// Adds what zones need to load and to be found, where the capture does not have it: zones above
/// others, SOA and NS records, addresses of name servers, delegations, what signatures need, names
/// that exist without records; zones for servers that only refuse, or that deny the zone's own
/// name. Every record that it makes up has its reason.
void complete(Observations& seen, const Hierarchy& hierarchy, Drafts& drafts);

/// Makes zones deny what was denied, as far as they can; what they cannot is in
/// `drafts.contradictions`. Refused names are in `drafts.refused`.
void add_denials(Observations& seen, Drafts& drafts);

/// Adds to zones with recorded signatures what they need so that servers return those and denials.
/// None of it can be validated.
void add_proofs(Observations& seen, Drafts& drafts);

// The whole way.

/// A response that answers nothing that was asked of the server.
struct Unasked {
    ServerId server = 0;
    Nanoseconds time = 0;
};

/// What was read, and what became of each response: `used` and those by reason are all of them.
struct CaptureCounts {
    std::uint64_t queries = 0;
    std::uint64_t answered = 0; ///< queries, each once
    std::uint64_t responses = 0;
    std::uint64_t without_query = 0; ///< used nevertheless
    std::uint64_t used = 0;
    std::map<std::string_view, std::uint64_t> unused; ///< by reason
    std::vector<Unasked> unasked;
    std::vector<ServerId> silent; ///< asked, but never heard
    std::vector<trace::Feed::File> files;
    trace::Counters reader;
};

/// Reads everything; `ports` are those of name servers. Throws trace::TraceError where a capture
/// cannot be opened.
CaptureCounts observe(const std::vector<std::string>& captures,
                      const std::vector<std::uint16_t>& ports, Observations& seen);

// build.json: what the zones were built from, and all that was chosen, dropped and made up.

/// Everything that is told of; all of it outlives the call.
struct BuildReport {
    const CaptureCounts& counts;
    const Observations& seen;
    const Hierarchy& hierarchy;
    const Drafts& drafts;
};

std::string build_json(const BuildReport& report);

/// zones.json, which `reprise zones plan` reads: the zones, who serves them, and who refused what.
std::string zones_json(const BuildReport& report);

/// For people: sizes, and the first few of what is missing.
std::string build_summary(const BuildReport& report);

// A draft as zone file text.

enum class Dnssec : std::uint8_t { kKeep, kStrip };

/// All records, a line each, with absolute names; what was made up has a comment that says why.
std::string zone_text(const Draft& zone, const Observations& seen, Dnssec dnssec);

} // namespace reprise::zonebuilder
