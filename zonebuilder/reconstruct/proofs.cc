// Records made up so that servers return what was recorded.
//
// A server looks at a zone's apex to see whether the zone is signed, and how names are
// denied. BIND returns signatures from a zone that has a DNSKEY record and, at the apex, an NSEC
// record with a signature or an NSEC3PARAM record; NSD does so if the DNSKEY records have a
// signature, and returns NSEC3 records if there is one at the apex's hash. A capture often lacks
// these, because nobody asked for them. So they are made up:
//
// - A DNSKEY record that signs nothing and is no entry point, so it does not become a trust anchor.
// - For NSEC3 records: NSEC3PARAM, and the apex's NSEC3.
// - For NSEC records: one at the apex, and at each other name that has records, because BIND
//   answers SERVFAIL if a name of such a zone has none. Not where a recorded one denies the name:
//   the server finds that one by the last name before the question, which has to stay the last.
// - If there are neither: NSEC3PARAM, with which BIND denies without a proof.
//
// The made-up denials deny nothing (the next name follows at once), and their signatures are copies
// of one over other records. A validating resolver accepts none of them, just as it accepts no
// answer without a proof: the proofs that it needs are in the capture or nowhere.

#include "core/dns/name.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

extern "C" {
#include <libdnssec/binary.h>
#include <libdnssec/error.h>
#include <libdnssec/nsec.h>
}

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

constexpr std::size_t kAlgorithm = 2; ///< places in an RRSIG's rdata (RFC 4034 section 3.1)
constexpr std::size_t kLabels = 3;
constexpr std::size_t kTtlPlace = 4;

/// Names in the order of their labels from the root down (RFC 4034 section 6.1); a key's own order
/// puts shorter labels first. Not libknot's, which takes zero bytes for ends of labels.
bool before(std::string_view a, std::string_view b) {
    Cursor one(bytes_of(a));
    Cursor other(bytes_of(b));
    while (one.left() > 0 && other.left() > 0) {
        const Bytes first = one.take(one.u8());
        const Bytes second = other.take(other.u8());
        if (!std::ranges::equal(first, second)) {
            return std::ranges::lexicographical_compare(first, second);
        }
    }
    return other.left() > 0;
}

/// The types as NSEC and NSEC3 records have them.
std::string bitmap(const std::set<std::uint16_t>& types) {
    const std::unique_ptr<dnssec_nsec_bitmap_t, decltype(&dnssec_nsec_bitmap_free)> map(
        dnssec_nsec_bitmap_new(), dnssec_nsec_bitmap_free);
    for (const std::uint16_t type : types) {
        dnssec_nsec_bitmap_add(map.get(), type);
    }
    std::string text(dnssec_nsec_bitmap_size(map.get()), '\0');
    dnssec_nsec_bitmap_write(map.get(), reinterpret_cast<std::uint8_t*>(text.data()));
    return text;
}

/// The part of an NSEC3 record's data that NSEC3PARAM has too; empty where that is cut.
std::string_view parameters_in(std::string_view rdata) {
    constexpr std::size_t kSalt = 4; ///< place of its length
    return rdata.size() > kSalt
               ? rdata.substr(0, kSalt + 1 + static_cast<std::uint8_t>(rdata[kSalt]))
               : std::string_view{};
}

/// A name's hash; empty where it cannot be made.
std::string hash_of(const std::string& name, std::string parameters) {
    dnssec_binary_t rdata{.size = parameters.size(),
                          .data = reinterpret_cast<std::uint8_t*>(parameters.data())};
    dnssec_nsec3_params_t how{};
    if (dnssec_nsec3_params_from_rdata(&how, &rdata) != DNSSEC_EOK) {
        return {};
    }
    std::string wire = name;
    const dnssec_binary_t data{.size = wire.size(),
                               .data = reinterpret_cast<std::uint8_t*>(wire.data())};
    dnssec_binary_t made{};
    const bool done = dnssec_nsec3_hash(&data, &how, &made) == DNSSEC_EOK;
    std::string hash(reinterpret_cast<const char*>(made.data), done ? made.size : 0);
    dnssec_binary_free(&made);
    dnssec_nsec3_params_free(&how);
    return hash;
}

/// As a label (RFC 4648 section 7), in lower case.
std::string base32hex(std::string_view hash) {
    constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
    std::string text;
    std::uint32_t bits = 0;
    unsigned held = 0;
    for (const char byte : hash) { // 20 of them, so that nothing is left over
        bits = (bits << 8U) | static_cast<std::uint8_t>(byte);
        for (held += 8; held >= 5;) {
            held -= 5;
            text += kDigits[(bits >> held) & 31U];
        }
    }
    return text;
}

/// The number that the bytes are, plus one.
void increment(std::string& hash) {
    for (std::size_t i = hash.size(); i > 0; --i) {
        hash[i - 1] = static_cast<char>(static_cast<std::uint8_t>(hash[i - 1]) + 1U);
        if (hash[i - 1] != 0) {
            return;
        }
    }
}

class Prover : public Maker {
public:
    using Maker::Maker;

    void run() {
        for (const Draft& zone : zones()) {
            for (const DraftRrset& one : zone.rrsets) {
                if (one.type == kTypeDs) {
                    secure_.insert(one.owner);
                }
            }
        }
        for (std::size_t i = 0; i < zones().size(); ++i) {
            prove(i);
        }
        flush();
    }

private:
    /// Data of a signature by the zone itself; none where the zone is not signed.
    [[nodiscard]] std::optional<std::string> signature_of(const Draft& zone) const {
        for (const DraftRrset& one : zone.rrsets) {
            if (one.signatures == kNoId) {
                continue;
            }
            const std::string_view signatures = seen_.contents()[one.signatures];
            if (signer_in(signatures).key() == names_.key(zone.name)) {
                return std::string(first_rdata(signatures));
            }
        }
        return std::nullopt;
    }

    void prove(std::size_t i) {
        const NameId apex = zones()[i].name;
        const auto signature = signature_of(zones()[i]);
        if (!signature) {
            if (secure_.contains(apex)) {
                drafts_.unproven.push_back({.zone = apex, .why = "no_signatures"});
            }
            return;
        }
        signature_ = *signature;
        const auto* const keys = find(zones()[i], apex, kTypeDnskey);
        if (keys == nullptr) {
            make_key(i);
        }
        if (keys == nullptr || keys->signatures == kNoId) {
            drafts_.unproven.push_back(
                {.zone = apex, .why = keys == nullptr ? "no_keys" : "keys_unsigned"});
        }
        const auto hashed = std::ranges::count(zones()[i].rrsets, kTypeNsec3, &DraftRrset::type);
        const auto plain = std::ranges::count(zones()[i].rrsets, kTypeNsec, &DraftRrset::type);
        if (plain > hashed) {
            add_nsec(i);
        } else {
            add_nsec3(i);
        }
    }

    /// A record and the signature of one over others.
    void make_signed(std::size_t i, NameId owner, std::uint16_t type, std::string data,
                     std::string_view why) {
        std::string made = signature_;
        auto* const bytes = reinterpret_cast<std::uint8_t*>(made.data());
        store16(bytes, type);
        made[kLabels] =
            static_cast<char>(names_.labels(owner) - (names_.is_wildcard(owner) ? 1U : 0U));
        store32(bytes + kTtlPlace, kTtl);
        make(i, owner, type, content({std::move(data)}), kTtl, why, content({std::move(made)}));
    }

    /// Flags 256: a zone key, but no secure entry point.
    void make_key(std::size_t i) {
        std::string data{1, 0, 3, signature_[kAlgorithm]};
        data += "made up by reprise: not recorded";
        make_signed(i, zones()[i].name, kTypeDnskey, data, "no_keys");
    }

    // NSEC3

    /// Those of most of the zone's NSEC3 records; of nothing where it has none.
    [[nodiscard]] std::string parameters(const Draft& zone) const {
        if (const auto* const known = find(zone, zone.name, kTypeNsec3Param)) {
            return std::string(first_rdata(seen_.contents()[known->content]));
        }
        std::map<std::string, std::size_t> counts{{std::string("\1\0\0\0\0", 5), 0}};
        for (const DraftRrset& one : zone.rrsets) {
            if (one.type == kTypeNsec3) {
                std::string made(parameters_in(first_rdata(seen_.contents()[one.content])));
                if (!made.empty()) {
                    made[1] = 0; // flags
                    ++counts[made];
                }
            }
        }
        return std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })
            ->first;
    }

    void add_nsec3(std::size_t i) {
        const NameId apex = zones()[i].name;
        const std::string how = parameters(zones()[i]);
        const bool denies = std::ranges::find(zones()[i].rrsets, kTypeNsec3, &DraftRrset::type) !=
                            zones()[i].rrsets.end();
        make(i, apex, kTypeNsec3Param, content({how}), 0,
             denies ? "no_nsec3_parameters" : "no_denials");
        std::string next = denies ? hash_of(wire_of(names_.name(apex)), how) : "";
        if (next.empty()) {
            return;
        }
        const std::string label = base32hex(next);
        const NameId owner =
            names_.add(std::string(names_.key(apex)) + static_cast<char>(label.size()) + label);
        increment(next);
        const std::string data =
            how + static_cast<char>(next.size()) + next +
            bitmap({kTypeNs, kTypeSoa, kTypeRrsig, kTypeDnskey, kTypeNsec3Param});
        make_signed(i, owner, kTypeNsec3, data, "no_apex_denial");
    }

    // NSEC

    using Span =
        std::pair<std::string_view, std::string>; ///< of an NSEC record: its name, the next

    /// Of the recorded NSEC records, in order.
    [[nodiscard]] std::vector<Span> spans(const Draft& zone) const {
        std::vector<Span> found;
        for (const DraftRrset& one : zone.rrsets) {
            if (one.type == kTypeNsec) {
                found.emplace_back(names_.key(one.owner),
                                   name_in(first_rdata(seen_.contents()[one.content])).key());
            }
        }
        std::ranges::sort(found, before, &Span::first);
        return found;
    }

    /// The last recorded NSEC record before the name denies it; that of the last name leads back to
    /// the apex.
    static bool denied(const std::vector<Span>& spans, std::string_view name) {
        const auto after = std::ranges::upper_bound(spans, name, before, &Span::first);
        if (after == spans.begin()) {
            return false;
        }
        const auto& [owner, next] = *(after - 1);
        return owner != name && (before(name, next) || !before(owner, next));
    }

    void add_nsec(std::size_t i) {
        const std::vector<Span> known = spans(zones()[i]);
        std::map<NameId, std::set<std::uint16_t>> types{{zones()[i].name, {}}};
        NameId cut = kNoId; // the last; what is below comes right after it
        for (const DraftRrset& one : zones()[i].rrsets) {
            const bool glue = cut != kNoId && names_.below(one.owner, cut);
            if (glue || one.type == kTypeNsec3) {
                continue;
            }
            cut = one.type == kTypeNs && one.owner != zones()[i].name ? one.owner : cut;
            types[one.owner].insert(one.type);
        }
        for (auto& [owner, held] : types) {
            if (held.contains(kTypeNsec) || denied(known, names_.key(owner))) {
                continue;
            }
            held.insert({kTypeRrsig, kTypeNsec});
            if (owner != zones()[i].name && held.contains(kTypeNs)) { // what else is there is glue
                std::erase_if(held, is_address);
            }
            make_signed(i, owner, kTypeNsec, following(owner) + bitmap(held), "no_denial");
        }
    }

    /// The name right after another, in wire form; if there is no room, the name itself, which says
    /// that there is no other.
    std::string following(NameId name) {
        std::string wire = wire_of(names_.name(name));
        return wire.size() + 2 <= Name::kMost ? std::string("\1\0", 2) + wire : wire;
    }

    std::set<NameId> secure_; ///< with DS records
    std::string signature_;   ///< of the zone at hand
};

} // namespace

void add_proofs(Observations& seen, Drafts& drafts) { Prover(seen, drafts).run(); }

} // namespace reprise::zonebuilder
