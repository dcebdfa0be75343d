// Which zone an RRset belongs to.
//
// What a server gave with authority at a name is from the lowest zone that encloses the name: if
// that zone were another server's, there would have been a referral. So an address that is not
// among a zone's name servers is one of them if it answers like one. A referral, with DS and glue,
// is from the lowest zone above the cut that the server speaks for; what it adds beside its answers
// from the lowest zone around it that it serves, and below a cut of that zone it can only be glue.
// NSEC and NSEC3 records are from the zone that signed them.
//
// Of several RRsets in one place that of the best rank counts, then one of a listed server, then
// the first (or that of the time that was asked for).
#include "core/dns/name.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Where an observation belongs.
struct Place {
    CutIndex zone = Hierarchy::kNone;
    std::string_view dropped = "unknown_zone"; ///< why it belongs nowhere
};

class Drafter {
public:
    Drafter(Observations& seen, const Hierarchy& hierarchy)
        : seen_(seen), names_(seen.names()), hierarchy_(hierarchy) {}

    Drafts run() {
        for (CutIndex cut = 0; cut < hierarchy_.cuts().size(); ++cut) {
            zones().push_back({.name = hierarchy_.cuts()[cut].name, .cut = cut});
        }
        find_servers();
        find_denials();
        std::vector<std::vector<std::uint32_t>> placed(zones().size());
        for (std::uint32_t i = 0; i < seen_.rrsets().size(); ++i) {
            const Place found = place(seen_.rrsets()[i]);
            if (found.zone == Hierarchy::kNone) {
                drafts_.dropped.push_back({.observation = i, .why = found.dropped});
            } else {
                placed[found.zone].push_back(i);
            }
        }
        for (Draft& zone : zones()) {
            choose(zone, placed[zone.cut]);
            prune(zone);
        }
        std::erase_if(zones(), [&](const Draft& zone) {
            return placed[zone.cut].empty() && zone.seen_serving.empty() && zone.denials.empty();
        });
        std::ranges::sort(zones(), {}, [&](const Draft& zone) { return names_.key(zone.name); });
        return std::move(drafts_);
    }

private:
    std::vector<Draft>& zones() { return drafts_.zones; }

    // Which zone something belongs to. Zones are in the order of their cuts yet.

    /// Who answered with authority for which zones.
    void find_servers() {
        for (const Observation& one : seen_.rrsets()) {
            const bool own = one.rank == Rank::kAnswer && one.type != kTypeDs;
            if (own && hierarchy_.trusts(one.server, one.owner)) {
                zones()[hierarchy_.enclosing(one.owner)].seen_serving.push_back(one.server);
            }
        }
        for (const Claim& claim : seen_.claims()) {
            const CutIndex cut = hierarchy_.at(claim.zone);
            if (cut != Hierarchy::kNone && hierarchy_.trusts(claim.server, claim.zone)) {
                zones()[cut].seen_serving.push_back(claim.server);
            }
        }
        for (Draft& zone : zones()) {
            sort_unique(zone.seen_serving);
        }
    }

    void find_denials() {
        for (std::uint32_t i = 0; i < seen_.denials().size(); ++i) {
            const Denial& denial = seen_.denials()[i];
            const CutIndex cut = hierarchy_.at(denial.zone);
            if (cut != Hierarchy::kNone && hierarchy_.trusts(denial.server, denial.zone)) {
                zones()[cut].denials.push_back(i);
            }
        }
    }

    [[nodiscard]] bool serves(ServerId server, CutIndex cut) const {
        return hierarchy_.serves(server, cut) ||
               (cut != Hierarchy::kNone &&
                std::ranges::binary_search(drafts_.zones[cut].seen_serving, server));
    }

    [[nodiscard]] Place place(const Observation& one) const {
        if (!hierarchy_.trusts(one.server, one.owner)) {
            return {.dropped = "not_its_zone"};
        }
        const bool nowhere = one.type == kTypeNs || one.type == kTypeNsec3;
        if (nowhere && names_.is_wildcard(one.owner)) {
            return {.dropped = "at_wildcard"}; // servers load no such zone
        }
        if (one.type == kTypeNsec || one.type == kTypeNsec3) {
            return place_proof(one);
        }
        if (one.rank == Rank::kReferral || one.type == kTypeDs) {
            return place_delegation(one);
        }
        if (one.type == kTypeSoa || one.type == kTypeNs) {
            return place_apex(one);
        }
        return one.rank == Rank::kAnswer ? Place{.zone = hierarchy_.enclosing(one.owner)}
                                         : place_companion(one);
    }

    /// SOA and NS records of the zone itself.
    [[nodiscard]] Place place_apex(const Observation& one) const {
        const CutIndex at = hierarchy_.at(one.owner);
        const bool fits =
            at != Hierarchy::kNone && (one.rank <= Rank::kAuthority || serves(one.server, at));
        return fits ? Place{.zone = at} : Place{.dropped = "not_at_apex"};
    }

    [[nodiscard]] Place place_proof(const Observation& one) const {
        constexpr char kSha1 = 1; // the only hash of NSEC3 (RFC 5155)
        if (one.signatures == kNoId) {
            return {.dropped = "unsigned_proof"};
        }
        if (one.type == kTypeNsec3 && first_rdata(seen_.contents()[one.content]).front() != kSha1) {
            return {.dropped = "unknown_hash"};
        }
        const auto id = names_.find(signer_in(seen_.contents()[one.signatures]).key());
        const bool above = id && names_.within(one.owner, *id);
        return above && hierarchy_.at(*id) != Hierarchy::kNone ? Place{.zone = hierarchy_.at(*id)}
                                                               : Place{.dropped = "unknown_signer"};
    }

    [[nodiscard]] Place place_delegation(const Observation& one) const {
        if (one.owner == NameTable::kRoot) {
            return {};
        }
        const NameId parent = names_.parent(one.owner);
        const CutIndex lowest = hierarchy_.enclosing(parent);
        const bool own =
            lowest == hierarchy_.enclosing_of(one.server, parent) || serves(one.server, lowest);
        return own ? Place{.zone = lowest} : Place{.dropped = "below_cut"};
    }

    /// Beside or behind what was asked for.
    [[nodiscard]] Place place_companion(const Observation& one) const {
        const CutIndex lowest = hierarchy_.enclosing(one.owner);
        if (serves(one.server, lowest)) {
            return {.zone = lowest};
        }
        if (one.rank != Rank::kAdditional) {
            return {.dropped = "another_zone"};
        }
        const CutIndex own = hierarchy_.enclosing_of(one.server, one.owner);
        return is_address(one.type) ? Place{.zone = own} : Place{.dropped = "below_cut"};
    }

    // What counts among all that was placed in one zone.

    void choose(Draft& zone, std::vector<std::uint32_t>& placed) {
        unlisted_ = &hierarchy_.cuts()[zone.cut].unlisted;
        std::ranges::sort(placed, [this](std::uint32_t a, std::uint32_t b) {
            return before(seen_.rrsets()[a], seen_.rrsets()[b]);
        });
        for (std::size_t i = 0; i < placed.size();) {
            const NameId owner = seen_.rrsets()[placed[i]].owner;
            std::size_t end = i;
            while (end < placed.size() && seen_.rrsets()[placed[end]].owner == owner) {
                ++end;
            }
            choose_owner(zone, {placed.data() + i, end - i});
            i = end;
        }
    }

    [[nodiscard]] bool listed(const Observation& one) const {
        return !std::ranges::binary_search(*unlisted_, one.server);
    }

    /// The order of a zone's text; in one place, the one to take first.
    [[nodiscard]] bool before(const Observation& a, const Observation& b) const {
        if (a.owner != b.owner) {
            return names_.key(a.owner) < names_.key(b.owner);
        }
        if (std::tie(a.type, a.rank) != std::tie(b.type, b.rank)) {
            return std::tie(a.type, a.rank) < std::tie(b.type, b.rank);
        }
        if (listed(a) != listed(b)) {
            return listed(a);
        }
        if (a.time != b.time) {
            return seen_.sooner(a.time, b.time);
        }
        return std::pair(seen_.contents()[a.content], seen_.address(a.server)) <
               std::pair(seen_.contents()[b.content], seen_.address(b.server));
    }

    void choose_owner(Draft& zone, std::span<const std::uint32_t> placed) {
        const std::size_t from = zone.rrsets.size();
        for (const std::uint32_t index : placed) {
            const Observation& one = seen_.rrsets()[index];
            if (zone.rrsets.size() == from || zone.rrsets.back().type != one.type) {
                zone.rrsets.push_back({.owner = one.owner,
                                       .type = one.type,
                                       .ttl = one.ttl,
                                       .content = one.content,
                                       .signatures = one.signatures,
                                       .observation = index});
            } else if (zone.rrsets.back().content != one.content) {
                note_version(zone, zone.rrsets.back().observation, index);
            } else if (zone.rrsets.back().signatures == kNoId) {
                zone.rrsets.back().signatures = one.signatures;
            }
        }
        part_alias(zone, from);
    }

    /// What is of less weight is a copy that may be old.
    void note_version(const Draft& zone, std::uint32_t kept, std::uint32_t other) {
        if (seen_.rrsets()[other].rank <= Rank::kAuthority ||
            seen_.rrsets()[other].rank == seen_.rrsets()[kept].rank) {
            drafts_.versions.push_back(
                {.zone = zone.name, .kept = kept, .other = other, .what = "other_records"});
        }
    }

    /// A name has a CNAME or other records: what counts first.
    void part_alias(Draft& zone, std::size_t from) {
        const auto begin = zone.rrsets.begin() + static_cast<std::ptrdiff_t>(from);
        const auto alias =
            std::ranges::find(begin, zone.rrsets.end(), kTypeCname, &DraftRrset::type);
        if (alias == zone.rrsets.end()) {
            return;
        }
        const DraftRrset cname = *alias;
        const auto rival = std::find_if(begin, zone.rrsets.end(), [&](const DraftRrset& one) {
            return one.type != kTypeCname && !joins_alias(one.type) && !counts(cname, one);
        });
        const bool keep = rival == zone.rrsets.end() && cname.owner != zone.name;
        const DraftRrset winner = keep ? cname : rival == zone.rrsets.end() ? *begin : *rival;
        const auto loses = [&](const DraftRrset& one) {
            const bool beaten =
                keep ? one.type != kTypeCname && !joins_alias(one.type) : one.type == kTypeCname;
            if (beaten) {
                drafts_.conflicts.push_back({.zone = zone.name,
                                             .kept = winner.observation,
                                             .other = one.observation,
                                             .what = "cname_and_other_records"});
            }
            return beaten;
        };
        zone.rrsets.erase(std::remove_if(begin, zone.rrsets.end(), loses), zone.rrsets.end());
    }

    /// Whether `a` counts rather than `b`, of another type.
    [[nodiscard]] bool counts(const DraftRrset& a, const DraftRrset& b) const {
        const Observation& one = seen_.rrsets()[a.observation];
        const Observation& two = seen_.rrsets()[b.observation];
        return one.rank != two.rank ? one.rank < two.rank : !seen_.sooner(two.time, one.time);
    }

    // What no server gives: records below a DNAME, and below a cut all but addresses of name
    // servers.

    void prune(Draft& zone) {
        std::unordered_set<NameId> dnames;
        std::unordered_set<NameId> cuts;
        std::unordered_set<NameId> targets;
        for (const DraftRrset& one : zone.rrsets) {
            if (one.type == kTypeDname) {
                dnames.insert(one.owner);
            } else if (one.type == kTypeNs) {
                const auto servers = servers_in(seen_.contents()[one.content], names_);
                targets.insert(servers.begin(), servers.end());
                if (one.owner != zone.name) {
                    cuts.insert(one.owner);
                }
            }
        }
        if (dnames.empty() && cuts.empty()) {
            return;
        }
        std::erase_if(zone.rrsets, [&](const DraftRrset& one) {
            const std::string_view why = why_not(zone, one, dnames, cuts, targets);
            if (!why.empty()) {
                drafts_.dropped.push_back({.observation = one.observation, .why = why});
            }
            return !why.empty();
        });
    }

    [[nodiscard]] std::string_view why_not(const Draft& zone, const DraftRrset& one,
                                           const std::unordered_set<NameId>& dnames,
                                           const std::unordered_set<NameId>& cuts,
                                           const std::unordered_set<NameId>& targets) const {
        if (one.type == kTypeNsec3) {
            return {};
        }
        const bool at_cut = cuts.contains(one.owner);
        const bool parents = one.type == kTypeNs || one.type == kTypeDs || one.type == kTypeNsec;
        if (at_cut && parents) {
            return {};
        }
        bool glue = at_cut;
        for (NameId name = one.owner; name != zone.name;) {
            name = names_.parent(name);
            if (dnames.contains(name)) {
                return "below_dname";
            }
            glue = glue || (name != zone.name && cuts.contains(name));
        }
        if (!glue || (is_address(one.type) && targets.contains(one.owner))) {
            return {};
        }
        return "below_cut";
    }

    Observations& seen_;
    NameTable& names_;
    const Hierarchy& hierarchy_;
    Drafts drafts_;
    const std::vector<ServerId>* unlisted_ = nullptr; ///< of the zone at hand
};

} // namespace

Drafts make_drafts(Observations& seen, const Hierarchy& hierarchy) {
    return Drafter(seen, hierarchy).run();
}

std::string wire_of(const NameKey& name) {
    const Name wire = parse_name(name.text()).value_or(Name());
    return {wire.bytes().begin(), wire.bytes().end()};
}

std::string soa_of(const NameKey& server) {
    constexpr std::array<std::uint32_t, 5> kSerialAndTimes{1, 3600, 900, 1'209'600, 300};
    std::string data = wire_of(server) + wire_of(NameKey{});
    for (const std::uint32_t value : kSerialAndTimes) {
        std::array<std::uint8_t, 4> bytes{};
        store32(bytes.data(), value);
        data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return data;
}

const DraftRrset* Maker::find(const Draft& zone, NameId owner, std::uint16_t type) const {
    const auto place = std::ranges::lower_bound(
        zone.rrsets, std::pair(names_.key(owner), type), {},
        [this](const DraftRrset& one) { return std::pair(names_.key(one.owner), one.type); });
    const bool there = place != zone.rrsets.end() && place->owner == owner && place->type == type;
    return there ? &*place : nullptr;
}

void Maker::make(std::size_t zone, NameId owner, std::uint16_t type, ContentId content,
                 std::uint32_t ttl, std::string_view why, ContentId signatures) {
    if (find(drafts_.zones[zone], owner, type) == nullptr &&
        made_.emplace(zone, owner, type).second) {
        extra_[zone].push_back({.owner = owner,
                                .type = type,
                                .ttl = ttl,
                                .content = content,
                                .signatures = signatures,
                                .observation = kNoId,
                                .why = why});
    }
}

ContentId Maker::content(std::vector<std::string> data) {
    std::ranges::sort(data);
    std::string made;
    content_of({data.begin(), data.end()}, made);
    return seen_.contents().add(made);
}

void Maker::flush() {
    const auto place = [this](const DraftRrset& one) {
        return std::pair(names_.key(one.owner), one.type);
    };
    for (auto& [zone, extra] : extra_) {
        auto& rrsets = drafts_.zones[zone].rrsets;
        rrsets.insert(rrsets.end(), extra.begin(), extra.end());
        std::ranges::sort(rrsets, {}, place);
    }
    extra_.clear();
}

} // namespace reprise::zonebuilder
