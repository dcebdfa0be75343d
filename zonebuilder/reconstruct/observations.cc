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
#include <optional>
#include <string_view>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr std::uint16_t kNoError = 0;
constexpr std::uint16_t kNxDomain = 3;
constexpr std::uint16_t kHinfo = 13;

constexpr std::size_t kSignatureLabels = 3;  ///< place in an RRSIG's rdata
constexpr std::size_t kSignatureSigner = 18; ///< RFC 4034 section 3.1

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
struct Observations::Context {
    const Response& response;
    ServerId server;
    Nanoseconds time;
    NameId name;           ///< where the aliases lead; at first the question's name
    bool answered = false; ///< there are records of the type at `name`
};

void Observations::add(const Response& response, ServerId server, Nanoseconds time) {
    Context context{
        .response = response, .server = server, .time = time, .name = response.question};
    if (response.surplus > 0) {
        ignored_["several_of_a_singleton"] += response.surplus;
    }
    if (response.rcode != kNoError && response.rcode != kNxDomain) {
        fail(context, Failure::kRcode);
    } else if (response.authoritative) {
        add_authoritative(context);
    } else {
        add_other(context);
    }
}

void Observations::add_authoritative(Context& context) {
    add_answer(context);
    add_authority(context);
    for (const Rrset& rrset : context.response.additional) {
        observe(context, rrset, Rank::kAdditional);
    }
}

/// Follows the aliases from the question's name on; a loop ends where there is nothing new.
void Observations::add_answer(Context& context) {
    std::size_t used = 0;
    constexpr std::size_t kMostSteps = 32; // resolvers follow fewer
    for (std::size_t step = 0; step < kMostSteps; ++step) {
        const Rank rank = step == 0 ? Rank::kAnswer : Rank::kChained;
        const NameId here = context.name;
        used += follow_dname(context, rank);
        if (context.name == here) {
            used += follow_cname(context, rank);
        }
        if (context.name == here || context.answered) {
            break;
        }
    }
    if (used < context.response.answer.size()) {
        ignored_["not_asked_for"] += context.response.answer.size() - used;
    }
}

/// A DNAME above the name; the CNAME that the server made of it is left out. Returns how many
/// RRsets were used.
std::size_t Observations::follow_dname(Context& context, Rank rank) {
    const auto& answer = context.response.answer;
    if (std::ranges::find(answer, kTypeDname, &Rrset::type) == answer.end()) {
        return 0;
    }
    const Rrset* dname = nullptr;
    for (NameId above = context.name; above != NameTable::kRoot && dname == nullptr;) {
        above = names_.parent(above);
        dname = find(answer, above, kTypeDname);
    }
    if (dname == nullptr) {
        return 0;
    }
    observe(context, *dname, rank);
    const bool made = find(answer, context.name, kTypeCname) != nullptr;
    if (const auto target = name_in(first_rdata(contents_[dname->content]))) {
        const NameKey name = names_.name(context.name);
        const auto moved = name.moved(names_.key(dname->owner), *target);
        context.name = moved ? names_.add(*moved) : context.name;
    }
    return made ? 2 : 1;
}

/// All records at the name, and on to the CNAME's target if it is not what was asked for.
std::size_t Observations::follow_cname(Context& context, Rank rank) {
    const NameId here = context.name;
    const std::uint16_t wanted = context.response.question_type;
    std::size_t used = 0;
    for (const Rrset& rrset : context.response.answer) {
        if (rrset.owner != here) {
            continue;
        }
        ++used;
        if (!(wanted == kTypeAny && rrset.type == kHinfo)) { // made up instead of ANY (RFC 8482)
            observe(context, rrset, rank);
        }
        context.answered = context.answered || rrset.type == wanted || wanted == kTypeAny;
        if (rrset.type == kTypeCname && !context.answered) {
            const auto target = name_in(first_rdata(contents_[rrset.content]));
            context.name = target ? names_.add(*target) : here;
        }
    }
    return used;
}

/// Beside an authoritative answer: whose zone it is from, what it denies, or, behind an alias,
/// where to go on.
void Observations::add_authority(Context& context) {
    bool soa = false;
    for (const Rrset& rrset : context.response.authority) {
        const bool encloses = names_.within(context.name, rrset.owner);
        if (rrset.type == kTypeSoa && rrset.owner == context.name &&
            context.response.rcode == kNxDomain) {
            fail(context, Failure::kDeniesZone);
            ignored_["denies_its_zone"] += context.response.authority.size();
            return;
        }
        if (rrset.type == kTypeSoa && encloses) {
            soa = true;
            observe(context, rrset, Rank::kAuthority);
            claim(context, rrset.owner);
            deny(context, rrset.owner);
        } else if (rrset.type == kTypeSoa) {
            ++ignored_["unknown_authority"];
        }
    }
    for (const Rrset& rrset : context.response.authority) {
        const bool encloses = names_.within(context.name, rrset.owner);
        if (rrset.type == kTypeNs && encloses) {
            add_servers(context, rrset, soa);
        } else if (is_denial_proof(rrset.type)) {
            observe(context, rrset, Rank::kAuthority);
        } else if (rrset.type != kTypeSoa) {
            ++ignored_["unknown_authority"];
        }
    }
    const bool nothing = context.name == context.response.question && !context.answered && !soa;
    if (nothing && context.response.answer.empty()) {
        fail(context, Failure::kEmpty);
    }
}

/// NS records beside an authoritative answer: the zone's own, or a referral for the end of a chain
/// of aliases.
void Observations::add_servers(Context& context, const Rrset& servers, bool soa) {
    if (context.answered || soa || context.response.rcode == kNxDomain) {
        observe(context, servers, Rank::kAuthority);
        claim(context, servers.owner);
    } else if (context.name != context.response.question) {
        add_referral(context, servers.owner);
    } else {
        ++ignored_["authoritative_referral"];
    }
}

void Observations::add_other(Context& context) {
    const Response& response = context.response;
    const auto used = rrsets_counted_;
    const auto cut = std::ranges::find_if(response.authority, [&](const Rrset& one) {
        return one.type == kTypeNs && names_.within(context.name, one.owner);
    });
    if (!response.answer.empty()) {
        for (const Rrset& rrset : response.answer) {
            if (rrset.owner == response.question && !response.recursive) { // else from a cache
                observe(context, rrset, Rank::kUnauthoritative);
            }
        }
        fail(context, Failure::kNotAuthoritative);
    } else if (cut == response.authority.end()) {
        const bool denial = std::ranges::any_of(
            response.authority, [](const Rrset& one) { return one.type == kTypeSoa; });
        fail(context, denial ? Failure::kNotAuthoritative : Failure::kEmpty);
    } else if (cut->owner == NameTable::kRoot) {
        fail(context, Failure::kUpward);
    } else {
        add_referral(context, cut->owner);
        for (const Rrset& rrset : response.additional) {
            observe(context, rrset, Rank::kAdditional);
        }
    }
    const std::size_t all =
        response.answer.size() + response.authority.size() + response.additional.size();
    if (all > rrsets_counted_ - used) {
        ignored_["without_authority"] += all - (rrsets_counted_ - used);
    }
}

/// NS and DS records of the cut, and what proves that there is no DS.
void Observations::add_referral(Context& context, NameId cut) {
    for (const Rrset& rrset : context.response.authority) {
        const bool at_cut = rrset.owner == cut && (rrset.type == kTypeNs || rrset.type == kTypeDs);
        if (at_cut || is_denial_proof(rrset.type)) {
            observe(context, rrset, Rank::kReferral);
        }
    }
}

/// The name that an RRset really stands at: where its signature is over fewer labels than its
/// owner has, it was made of a wildcard (RFC 4035 section 5.3.2), which is in the signer's zone.
NameId Observations::wildcard_of(const Rrset& rrset) {
    if (rrset.signatures == kNoId) {
        return rrset.owner;
    }
    const std::string_view signature = first_rdata(contents_[rrset.signatures]);
    if (signature.size() <= kSignatureSigner) {
        return rrset.owner;
    }
    const auto signed_labels = static_cast<std::uint8_t>(signature[kSignatureLabels]);
    const bool wildcard = names_.key(rrset.owner).ends_with("\1*");
    NameId encloser = rrset.owner;
    unsigned labels = names_.labels(rrset.owner);
    if (labels - (wildcard ? 1 : 0) <= signed_labels) {
        return rrset.owner;
    }
    for (; labels > signed_labels; --labels) {
        encloser = names_.parent(encloser);
    }
    const auto signer = signer_in(contents_[rrset.signatures]);
    return signer && names_.key(encloser).starts_with(signer->key())
               ? names_.add(wildcard_key(names_.key(encloser)))
               : rrset.owner;
}

void Observations::observe(const Context& context, const Rrset& rrset, Rank rank) {
    const bool at_end = rank == Rank::kAnswer || rank == Rank::kChained;
    const NameId owner = at_end ? wildcard_of(rrset) : rrset.owner;
    ++rrsets_counted_;
    Observation& known = rrsets_.at(key_of(context.server, owner, rrset.content, rrset.type, rank),
                                    {.server = context.server,
                                     .owner = owner,
                                     .content = rrset.content,
                                     .signatures = rrset.signatures,
                                     .ttl = rrset.ttl,
                                     .count = 0,
                                     .type = rrset.type,
                                     .rank = rank,
                                     .time = context.time});
    ++known.count;
    const bool counts = sooner(context.time, known.time);
    const bool both = known.signatures != kNoId && rrset.signatures != kNoId;
    const bool first_of_equals = both && context.time == known.time &&
                                 contents_[rrset.signatures] < contents_[known.signatures];
    if (known.signatures == kNoId || (both && counts) || first_of_equals) {
        known.signatures = rrset.signatures; // in any order of packets the same
    }
    if (counts) {
        known.ttl = rrset.ttl;
        known.time = context.time;
    } else if (context.time == known.time) {
        known.ttl = std::min(known.ttl, rrset.ttl);
    }
    if (rank == Rank::kReferral || (context.response.authoritative && rank != Rank::kAdditional)) {
        claim_by(context, rrset, rank);
    }
}

/// SOA and NS records of an authoritative response tell the zone's name; a signature's signer does
/// anywhere.
void Observations::claim_by(const Context& context, const Rrset& rrset, Rank rank) {
    if (rank != Rank::kReferral && (rrset.type == kTypeSoa || rrset.type == kTypeNs)) {
        claim(context, rrset.owner);
    }
    if (rrset.signatures == kNoId) {
        return;
    }
    const auto signer = signer_in(contents_[rrset.signatures]);
    const auto id = signer ? names_.find(signer->key()) : std::nullopt;
    if (id && names_.within(rrset.owner, *id)) {
        claim(context, *id);
    }
}

void Observations::deny(const Context& context, NameId zone) {
    const std::uint16_t asked = context.response.question_type;
    if (context.answered || is_meta(asked)) {
        return;
    }
    const std::uint16_t type = context.response.rcode == kNxDomain ? 0 : asked;
    Denial& known =
        denials_.at(key_of(context.server, context.name, zone, type), {.server = context.server,
                                                                       .name = context.name,
                                                                       .zone = zone,
                                                                       .type = type,
                                                                       .time = context.time});
    if (sooner(context.time, known.time)) {
        known.time = context.time;
    }
}

void Observations::claim(const Context& context, NameId zone) {
    const Response& response = context.response;
    const NameId asked =
        response.question_type == kTypeDs ? names_.parent(response.question) : response.question;
    if (!names_.within(asked, zone)) {
        return; // behind an alias, where nobody asked it to go
    }
    Claim& known = claims_.at(key_of(context.server, zone), {.server = context.server,
                                                             .zone = zone,
                                                             .common = asked,
                                                             .count = 0,
                                                             .time = context.time});
    known.common = names_.common(known.common, asked);
    ++known.count;
    known.time = std::min(known.time, context.time);
}

void Observations::fail(const Context& context, Failure why) {
    const std::uint16_t rcode = why == Failure::kRcode ? context.response.rcode : 0;
    Failed& known =
        failures_.at(key_of(context.server, context.name, rcode, why), {.server = context.server,
                                                                        .name = context.name,
                                                                        .why = why,
                                                                        .rcode = rcode,
                                                                        .time = context.time});
    known.time = std::min(known.time, context.time);
}

} // namespace reprise::zonebuilder
