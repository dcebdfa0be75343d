// What zones lack because servers denied it: names that exist without records, and servers that
// refuse, or that deny the zone's own name.

#include "core/base/address.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::zonebuilder {
namespace {

class Denier : public Maker {
public:
    using Maker::Maker;

    void run() {
        for (std::size_t i = 0; i < zones().size(); ++i) {
            check_denials(i);
            add_proven_names(i);
        }
        flush();
        add_refusals();
        add_denied_zones();
    }

private:
    // Denials

    /// The first RRset at or below a name; null where there is none. DNSSEC records do not count,
    /// because they may be left out of the zone or made anew.
    [[nodiscard]] const DraftRrset* first_within(const Draft& zone, NameId name) const {
        auto place = std::ranges::lower_bound(
            zone.rrsets, names_.key(name), {},
            [this](const DraftRrset& one) { return names_.key(one.owner); });
        while (place != zone.rrsets.end() && is_dnssec(place->type)) {
            ++place;
        }
        return place != zone.rrsets.end() && names_.within(place->owner, name) ? &*place : nullptr;
    }

    /// The name itself, or the wildcard that answers for it.
    [[nodiscard]] NameId source_of(const Draft& zone, NameId name) const {
        if (first_within(zone, name) != nullptr) {
            return name;
        }
        while (name != zone.name) {
            name = names_.parent(name);
            const auto wildcard = names_.find(wildcard_key(names_.key(name)));
            if (wildcard && first_within(zone, *wildcard) != nullptr) {
                return *wildcard;
            }
            if (first_within(zone, name) != nullptr) {
                break;
            }
        }
        return kNoId;
    }

    /// Another zone has the name, or a DNAME record renames it.
    [[nodiscard]] bool is_elsewhere(const Draft& zone, NameId name) const {
        for (; name != zone.name; name = names_.parent(name)) {
            if (find(zone, name, kTypeNs) != nullptr ||
                find(zone, names_.parent(name), kTypeDname) != nullptr) {
                return true;
            }
        }
        return false;
    }

    void check_denials(std::size_t i) {
        for (const std::uint32_t index : zones()[i].denials) {
            const Draft& zone = zones()[i];
            const Denial& denial = seen_.denials()[index];
            if (!names_.within(denial.name, zone.name)) {
                continue;
            }
            const bool elsewhere = is_elsewhere(zone, denial.name);
            const NameId source = elsewhere ? kNoId : source_of(zone, denial.name);
            const bool has = source != kNoId &&
                             (denial.type == 0 || find(zone, source, denial.type) != nullptr ||
                              find(zone, source, kTypeCname) != nullptr);
            if (elsewhere ? denial.type != kTypeDs : has) {
                drafts_.contradictions.push_back({.denial = index, .zone = zone.name});
            } else if (!elsewhere && denial.type != 0 && source == kNoId) {
                make_empty(i, denial.name);
            }
        }
    }

    /// Names that NSEC records mention.
    void add_proven_names(std::size_t i) {
        std::set<NameId> denied;
        for (const std::uint32_t index : zones()[i].denials) {
            const Denial& denial = seen_.denials()[index];
            if (denial.type == 0) {
                denied.insert(denial.name);
            }
        }
        for (const NameId name : proven_names(zones()[i])) {
            bool absent = is_elsewhere(zones()[i], name);
            for (NameId above = name; above != zones()[i].name; above = names_.parent(above)) {
                absent = absent || denied.contains(above);
            }
            if (!absent && first_within(zones()[i], name) == nullptr) {
                make_empty(i, name);
            }
        }
    }

    /// The names of the recorded NSEC records and those that they say are next, without the zone's
    /// own. Some servers make such records for each question: one without types stands for no
    /// name, and a name that begins with a zero byte is not real, just the successor of another.
    std::set<NameId> proven_names(const Draft& zone) {
        std::set<NameId> found;
        for (const DraftRrset& one : zone.rrsets) {
            if (one.type != kTypeNsec || one.observation == kNoId) {
                continue;
            }
            const std::string_view rdata = first_rdata(seen_.contents()[one.content]);
            constexpr std::string_view kOnlyItself{"\0\6\0\0\0\0\0\3", 8}; // RRSIG, NSEC
            if (!rdata.ends_with(kOnlyItself)) {
                found.insert(one.owner);
            }
            const NameId id = names_.add(name_in(rdata));
            if (names_.within(id, zone.name) && !begins_with_zero(id)) {
                found.insert(id);
            }
        }
        found.erase(zone.name);
        return found;
    }

    [[nodiscard]] bool begins_with_zero(NameId name) const {
        const std::string_view label =
            names_.key(name).substr(names_.key(names_.parent(name)).size());
        return label.size() > 1 && label[1] == '\0';
    }

    /// A name that exists, but for which nobody was seen to have records.
    void make_empty(std::size_t zone, NameId name) {
        constexpr std::string_view kText = "this record is made up: the name above it exists";
        std::string key(names_.key(name));
        constexpr std::string_view kLabel = "\15reprise-empty";
        constexpr std::size_t kLongest = 254;
        if (key.size() + kLabel.size() <= kLongest) {
            key += kLabel;
        }
        const std::string data = static_cast<char>(kText.size()) + std::string(kText);
        make(zone, names_.add(key), kTypeTxt, content({data}), kTtl, "name_without_records");
    }

    // Servers that answered oddly

    /// A zone of its own for addresses that answer like nobody else: only a SOA and an NS record.
    void add_private_zone(NameId name, const std::set<IpAddress>& servers, std::string_view why) {
        const std::size_t i = zones().size();
        zones().push_back({.name = name, .addresses = {servers.begin(), servers.end()}});
        const NameKey server = NameKey::parse("reprise-ns.invalid.").value_or(NameKey{});
        make(i, name, kTypeNs, content({wire_of(server)}), kTtl, why);
        make(i, name, kTypeSoa, content({soa_of(server)}), kTtl, why);
        if (name == NameTable::kRoot) { // which the server's name lies in
            make(i, names_.add(server), kTypeA, content({std::string(kNobody)}), kTtl, why);
        }
        flush();
    }

    /// Names that were refused; servers that did nothing else get a zone that nobody asks for, so
    /// that they are there to refuse.
    void add_refusals() {
        constexpr std::uint16_t kRefused = 5;
        std::set<IpAddress> only;
        std::set<IpAddress> serving;
        for (const Draft& zone : zones()) {
            serving.insert(zone.addresses.begin(), zone.addresses.end());
        }
        for (const Failed& one : seen_.failures()) {
            if (one.why == Failure::kRcode && one.rcode == kRefused) {
                const IpAddress& server = seen_.address(one.server);
                drafts_.refused[names_.name(one.name)].insert(server);
                if (!serving.contains(server)) {
                    only.insert(server);
                }
            }
        }
        if (!only.empty()) {
            const NameKey name = NameKey::parse("reprise-refuses.invalid.").value_or(NameKey{});
            add_private_zone(names_.add(name), only, "refuses_everything");
        }
    }

    /// NXDOMAIN with a SOA of the same name: no zone says so. One around it that is empty does
    /// nearly.
    void add_denied_zones() {
        std::set<std::pair<NameId, IpAddress>> serving; // before any is added
        for (const Draft& zone : zones()) {
            for (const IpAddress& address : zone.addresses) {
                serving.emplace(zone.name, address);
            }
        }
        std::map<NameKey, std::set<IpAddress>> denied;
        for (const Failed& one : seen_.failures()) {
            const IpAddress& server = seen_.address(one.server);
            const auto serves = [&](NameId zone) { return serving.contains({zone, server}); };
            if (one.why == Failure::kDeniesZone && names_.lowest(one.name, serves) == kNoId) {
                const auto is_zone = [this](NameId name) { return !names_.is_wildcard(name); };
                const NameId above = names_.lowest(names_.parent(one.name), is_zone);
                denied[names_.name(above)].insert(server);
            }
        }
        for (const auto& [name, servers] : denied) {
            add_private_zone(names_.add(name), servers, "denies_its_zone");
        }
    }
};

} // namespace

void add_denials(Observations& seen, Drafts& drafts) { Denier(seen, drafts).run(); }

} // namespace reprise::zonebuilder
