// Which part of a response says what (RFC 1034 section 4.3.2, RFC 2181 section 5.4.1).
//
// An authoritative answer is followed along its aliases: AA holds for the first name, what stands
// at the others may be of zones that the server only happens to hold. A SOA or NS record beside it
// tells the zone's name. Without AA and without an answer, NS records are a referral; an answer
// without AA is somebody's cache.
#include "zonebuilder/reconstruct/observations.hh"

#include "core/base/clock.hh"
#include "core/base/flat_ids.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr std::uint16_t kNoError = 0;
constexpr std::uint16_t kNxDomain = 3;
constexpr std::uint16_t kHinfo = 13;

template <typename... Part> FlatIds<16>::Key key_of(const Part&... part) {
    static_assert((sizeof(part) + ...) <= 16);
    FlatIds<16>::Key key{};
    std::size_t at = 0;
    ((std::memcpy(key.data() + at, &part, sizeof part), at += sizeof part), ...);
    return key;
}

const Rrset* find(const std::vector<Rrset>& section, NameId owner, std::uint16_t type) {
    const auto found = std::ranges::find_if(
        section, [&](const Rrset& one) { return one.owner == owner && one.type == type; });
    return found == section.end() ? nullptr : &*found;
}

bool is_denial_proof(std::uint16_t type) { return type == kTypeNsec || type == kTypeNsec3; }

} // namespace

/// One response, and how far it has been followed.
class Observations::Reading {
public:
    Reading(Observations& seen, const Response& response, ServerId server, Nanoseconds time)
        : seen_(seen), names_(seen.names_), response_(response), server_(server), time_(time),
          name_(response_.question) {}

    void run() {
        ignore("several_of_a_singleton", response_.surplus);
        if (response_.rcode != kNoError && response_.rcode != kNxDomain) {
            fail(Failure::kRcode);
        } else if (response_.authoritative) {
            add_answer();
            add_authority();
            observe_additional();
        } else {
            add_other();
        }
    }

private:
    /// Follows the aliases from the question's name on; a loop ends where there is nothing new.
    void add_answer() {
        std::size_t used = 0;
        constexpr std::size_t kMostSteps = 32; // resolvers follow fewer
        for (std::size_t step = 0; step < kMostSteps; ++step) {
            const Rank rank = step == 0 ? Rank::kAnswer : Rank::kChained;
            const NameId here = name_;
            used += follow_dname(rank);
            if (name_ == here) {
                used += follow_cname(rank);
            }
            if (name_ == here || answered_) {
                break;
            }
        }
        ignore("not_asked_for", response_.answer.size(), used);
    }

    /// A DNAME above the name; the CNAME that the server made of it is left out. Returns how many
    /// RRsets were used.
    std::size_t follow_dname(Rank rank) {
        const auto& answer = response_.answer;
        if (std::ranges::find(answer, kTypeDname, &Rrset::type) == answer.end()) {
            return 0;
        }
        const Rrset* dname = nullptr;
        for (NameId above = name_; above != NameTable::kRoot && dname == nullptr;) {
            above = names_.parent(above);
            dname = find(answer, above, kTypeDname);
        }
        if (dname == nullptr) {
            return 0;
        }
        observe(*dname, rank);
        const bool made = find(answer, name_, kTypeCname) != nullptr;
        const NameKey target = name_in(first_rdata(seen_.contents_[dname->content]));
        const auto moved = names_.name(name_).moved(names_.key(dname->owner), target);
        name_ = moved ? names_.add(*moved) : name_;
        return made ? 2 : 1;
    }

    /// All records at the name, and on to the CNAME's target if it is not what was asked for.
    std::size_t follow_cname(Rank rank) {
        const NameId here = name_;
        const std::uint16_t wanted = response_.question_type;
        std::size_t used = 0;
        for (const Rrset& rrset : response_.answer) {
            if (rrset.owner != here) {
                continue;
            }
            ++used;
            if (wanted != kTypeAny || rrset.type != kHinfo) { // made up instead (RFC 8482)
                observe(rrset, rank);
            }
            answered_ = answered_ || rrset.type == wanted || wanted == kTypeAny;
            if (rrset.type == kTypeCname && !answered_) {
                name_ = names_.add(name_in(first_rdata(seen_.contents_[rrset.content])));
            }
        }
        return used;
    }

    /// Beside an authoritative answer: whose zone it is from, what it denies, or, behind an alias,
    /// where to go on.
    void add_authority() {
        bool soa = false;
        for (const Rrset& rrset : response_.authority) {
            const bool encloses = names_.within(name_, rrset.owner);
            if (rrset.type == kTypeSoa && rrset.owner == name_ && response_.rcode == kNxDomain) {
                fail(Failure::kDeniesZone);
                ignore("denies_its_zone", response_.authority.size());
                return;
            }
            if (rrset.type == kTypeSoa && encloses) {
                soa = true;
                observe(rrset, Rank::kAuthority);
                claim(rrset.owner);
                deny(rrset.owner);
            } else if (rrset.type == kTypeSoa) {
                ignore("unknown_authority", 1);
            }
        }
        for (const Rrset& rrset : response_.authority) {
            const bool encloses = names_.within(name_, rrset.owner);
            if (rrset.type == kTypeNs && encloses) {
                add_servers(rrset, soa);
            } else if (is_denial_proof(rrset.type)) {
                observe(rrset, Rank::kAuthority);
            } else if (rrset.type != kTypeSoa) {
                ignore("unknown_authority", 1);
            }
        }
        const bool nothing = name_ == response_.question && !answered_ && !soa;
        if (nothing && response_.answer.empty()) {
            fail(Failure::kEmpty);
        }
    }

    /// NS records beside an authoritative answer: the zone's own, or a referral for the end of a
    /// chain of aliases.
    void add_servers(const Rrset& servers, bool soa) {
        if (answered_ || soa || response_.rcode == kNxDomain) {
            observe(servers, Rank::kAuthority);
            claim(servers.owner);
        } else if (name_ != response_.question) {
            add_referral(servers.owner);
        } else {
            ignore("authoritative_referral", 1);
        }
    }

    void add_other() {
        const auto cut = std::ranges::find_if(response_.authority, [&](const Rrset& one) {
            return one.type == kTypeNs && names_.within(name_, one.owner);
        });
        if (!response_.answer.empty()) {
            for (const Rrset& rrset : response_.answer) {
                if (rrset.owner == response_.question &&
                    !response_.recursive) { // else from a cache
                    observe(rrset, Rank::kUnauthoritative);
                }
            }
            fail(Failure::kNotAuthoritative);
        } else if (cut == response_.authority.end()) {
            const bool denial = std::ranges::any_of(
                response_.authority, [](const Rrset& one) { return one.type == kTypeSoa; });
            fail(denial ? Failure::kNotAuthoritative : Failure::kEmpty);
        } else if (cut->owner == NameTable::kRoot) {
            fail(Failure::kUpward);
        } else {
            add_referral(cut->owner);
            observe_additional();
        }
        ignore("without_authority",
               response_.answer.size() + response_.authority.size() + response_.additional.size(),
               observed_);
    }

    /// NS and DS records of the cut, and what proves that there is no DS.
    void add_referral(NameId cut) {
        for (const Rrset& rrset : response_.authority) {
            const bool at_cut =
                rrset.owner == cut && (rrset.type == kTypeNs || rrset.type == kTypeDs);
            if (at_cut || is_denial_proof(rrset.type)) {
                observe(rrset, Rank::kReferral);
            }
        }
    }

    /// The name that an RRset really stands at: where its signature is over fewer labels than its
    /// owner has, it was made of a wildcard (RFC 4035 section 5.3.2), which is in the signer's
    /// zone.
    NameId wildcard_of(const Rrset& rrset) {
        if (rrset.signatures == kNoId) {
            return rrset.owner;
        }
        constexpr std::size_t kLabels = 3; // place in an RRSIG's rdata
        const std::string_view signatures = seen_.contents_[rrset.signatures];
        const auto signed_labels = static_cast<std::uint8_t>(first_rdata(signatures)[kLabels]);
        const bool wildcard = names_.key(rrset.owner).ends_with("\1*");
        NameId encloser = rrset.owner;
        unsigned labels = names_.labels(rrset.owner);
        if (labels - (wildcard ? 1 : 0) <= signed_labels) {
            return rrset.owner;
        }
        for (; labels > signed_labels; --labels) {
            encloser = names_.parent(encloser);
        }
        return names_.key(encloser).starts_with(signer_in(signatures).key())
                   ? names_.add(wildcard_key(names_.key(encloser)))
                   : rrset.owner;
    }

    void observe_additional() {
        for (const Rrset& rrset : response_.additional) {
            observe(rrset, Rank::kAdditional);
        }
    }

    void observe(const Rrset& rrset, Rank rank) {
        const bool at_end = rank == Rank::kAnswer || rank == Rank::kChained;
        const NameId owner = at_end ? wildcard_of(rrset) : rrset.owner;
        ++observed_;
        Observation& known =
            seen_.rrsets_.at(key_of(server_, owner, rrset.content, rrset.type, rank),
                             {.server = server_,
                              .owner = owner,
                              .content = rrset.content,
                              .signatures = rrset.signatures,
                              .ttl = rrset.ttl,
                              .count = 0,
                              .type = rrset.type,
                              .rank = rank,
                              .time = time_});
        ++known.count;
        const bool counts = seen_.sooner(time_, known.time);
        const bool both = known.signatures != kNoId && rrset.signatures != kNoId;
        const bool first_of_equals =
            both && time_ == known.time &&
            seen_.contents_[rrset.signatures] < seen_.contents_[known.signatures];
        if (known.signatures == kNoId || (both && counts) || first_of_equals) {
            known.signatures = rrset.signatures; // in any order of packets the same
        }
        if (counts) {
            known.ttl = rrset.ttl;
            known.time = time_;
        } else if (time_ == known.time) {
            known.ttl = std::min(known.ttl, rrset.ttl);
        }
        if (rank == Rank::kReferral || (response_.authoritative && rank != Rank::kAdditional)) {
            claim_by(rrset, rank);
        }
    }

    /// SOA and NS records of an authoritative response tell the zone's name; a signature's signer
    /// does anywhere.
    void claim_by(const Rrset& rrset, Rank rank) {
        if (rank != Rank::kReferral && (rrset.type == kTypeSoa || rrset.type == kTypeNs)) {
            claim(rrset.owner);
        }
        if (rrset.signatures == kNoId) {
            return;
        }
        const auto id = names_.find(signer_in(seen_.contents_[rrset.signatures]).key());
        if (id && names_.within(rrset.owner, *id)) {
            claim(*id);
        }
    }

    void deny(NameId zone) {
        const std::uint16_t asked = response_.question_type;
        if (answered_ || is_meta(asked)) {
            return;
        }
        const std::uint16_t type = response_.rcode == kNxDomain ? 0 : asked;
        Denial& known = seen_.denials_.at(
            key_of(server_, name_, zone, type),
            {.server = server_, .name = name_, .zone = zone, .type = type, .time = time_});
        if (seen_.sooner(time_, known.time)) {
            known.time = time_;
        }
    }

    void claim(NameId zone) {
        const NameId question = response_.question;
        const NameId asked =
            response_.question_type == kTypeDs ? names_.parent(question) : question;
        if (!names_.within(asked, zone)) {
            return; // behind an alias, where nobody asked it to go
        }
        Claim& known = seen_.claims_.at(
            key_of(server_, zone),
            {.server = server_, .zone = zone, .common = asked, .count = 0, .time = time_});
        known.common = names_.common(known.common, asked);
        ++known.count;
        known.time = std::min(known.time, time_);
    }

    void fail(Failure why) {
        const std::uint16_t rcode = why == Failure::kRcode ? response_.rcode : 0;
        Failed& known = seen_.failures_.at(
            key_of(server_, name_, rcode, why),
            {.server = server_, .name = name_, .why = why, .rcode = rcode, .time = time_});
        known.time = std::min(known.time, time_);
    }

    /// RRsets in places where they say nothing: all `of` these but those that were used.
    void ignore(std::string_view why, std::size_t of, std::size_t used = 0) {
        if (of > used) {
            seen_.ignored_[why] += of - used;
        }
    }

    Observations& seen_;
    NameTable& names_;
    const Response& response_;
    ServerId server_;
    Nanoseconds time_;
    NameId name_;              ///< where the aliases lead; at first the question's name
    bool answered_ = false;    ///< there are records of the type at `name_`
    std::size_t observed_ = 0; ///< RRsets, each time
};

void Observations::add(const Response& response, ServerId server, Nanoseconds time) {
    Reading(*this, response, server, time).run();
}

} // namespace reprise::zonebuilder
