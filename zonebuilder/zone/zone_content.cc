// Records -> a zone, with the checks of a server that loads it.
//
// The planner reads zones with another parser than the servers. A zone that is planned but not
// loaded would give SERVFAIL for all its names in the middle of a run: so what BIND and NSD refuse
// is refused here, by name and line. What they only warn of (records outside the zone in BIND) is
// counted.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "zonebuilder/zone/zone.hh"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

using Records = std::vector<ZoneRecord>;

/// Names in rdata of NS, CNAME and DNAME fill it; the scanner has checked them.
NameKey target_of(const ZoneRecord& record) {
    return NameKey::from_wire(bytes_of(record.rdata)).value_or(NameKey{});
}

std::optional<IpAddress> address_of(const ZoneRecord& record) {
    const auto raw = bytes_of(record.rdata);
    if (record.type == kTypeA && raw.size() == 4) {
        return IpAddress::v4(raw.data());
    }
    if (record.type == kTypeAaaa && raw.size() == 16) {
        return IpAddress::v6(raw.data());
    }
    return std::nullopt;
}

/// Where the only SOA is, which must be as expected.
NameKey apex_of(const Records& records, const std::optional<NameKey>& expected) {
    const ZoneRecord* soa = nullptr;
    for (const ZoneRecord& record : records) {
        if (record.type != kTypeSoa) {
            continue;
        }
        if (soa != nullptr) {
            throw ZoneError(record.line, "a second SOA record");
        }
        soa = &record;
    }
    if (soa == nullptr) {
        throw ZoneError(0, records.empty() ? "no records" : "no SOA record");
    }
    if (expected && soa->owner != *expected) {
        throw ZoneError(soa->line, fmt::format("its SOA record is at {}, not at {}",
                                               soa->owner.text(), expected->text()));
    }
    return soa->owner;
}

/// Doubles are no second CNAME: every server drops them.
bool same_alias(const ZoneRecord& a, const ZoneRecord& b) {
    return a.type == b.type && target_of(a) == target_of(b);
}

/// Most zones without a CNAME are done at once; the others cost one look-up a record.
void check_aliases(const Records& records, const NameKey& apex) {
    std::unordered_map<std::string_view, const ZoneRecord*> aliases;
    for (const ZoneRecord& record : records) {
        if (record.type == kTypeCname && record.owner.within(apex)) {
            aliases.emplace(record.owner.key(), &record);
        }
    }
    if (aliases.empty()) {
        return;
    }
    for (const ZoneRecord& record : records) {
        const auto alias = aliases.find(record.owner.key());
        if (alias != aliases.end() && !joins_alias(record.type) &&
            !same_alias(record, *alias->second)) {
            throw ZoneError(record.line,
                            fmt::format("{} has a CNAME and other data", record.owner.text()));
        }
    }
}

bool is_wildcard(const NameKey& name) {
    const auto keys = name.enclosing();
    return keys.size() > 1 && keys.back().substr(keys[keys.size() - 2].size()) == "\1*";
}

/// Why BIND, NSD or both refuse the whole zone because of this record; empty where they do not.
std::string_view why_refused(const ZoneRecord& record, const NameKey& apex) {
    if (is_meta(record.type)) {
        return "a type that is not zone data";
    }
    if (record.type == kTypeNs && is_wildcard(record.owner)) {
        return "an NS record at a wildcard";
    }
    if (record.type == kTypeDs && record.owner == apex) {
        return "a DS record at the zone's own name; it belongs into the parent";
    }
    const bool cut = is_address(record.type) && !address_of(record);
    return cut ? "an address of the wrong length" : "";
}

/// Single records that servers refuse; DNAMEs that differ at one name.
void check_records(const Records& records, const NameKey& apex) {
    std::unordered_map<std::string_view, const ZoneRecord*> dnames;
    for (const ZoneRecord& record : records) {
        if (!record.owner.within(apex)) {
            continue;
        }
        if (const auto why = why_refused(record, apex); !why.empty()) {
            throw ZoneError(record.line, std::string(why));
        }
        if (record.type == kTypeDname &&
            !same_alias(record, *dnames.emplace(record.owner.key(), &record).first->second)) {
            throw ZoneError(record.line, fmt::format("a second DNAME at {}", record.owner.text()));
        }
    }
}

/// Records where a DNAME allows none (RFC 6672 section 2.4).
std::uint64_t records_below(const Records& records, const NameKey& apex) {
    std::unordered_set<std::string_view> dnames;
    for (const ZoneRecord& record : records) {
        if (record.type == kTypeDname && record.owner.within(apex)) {
            dnames.insert(record.owner.key());
        }
    }
    if (dnames.empty()) {
        return 0;
    }
    return static_cast<std::uint64_t>(std::ranges::count_if(records, [&](const ZoneRecord& record) {
        // Hashed names lie below the apex, where a DNAME may be; their signatures come with them.
        if (record.type == kTypeNsec3 || record.type == kTypeRrsig) {
            return false;
        }
        auto above = record.owner.enclosing();
        above.pop_back();
        return std::ranges::any_of(above, [&](auto key) { return dnames.contains(key); });
    }));
}

/// RFC 4034 appendix B.
std::uint16_t key_tag(std::string_view key) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < key.size(); ++i) {
        const std::uint32_t byte = static_cast<std::uint8_t>(key[i]);
        sum += i % 2 == 0 ? byte << 8U : byte;
    }
    return static_cast<std::uint16_t>(sum + (sum >> 16U));
}

/// Of the data of a DNSKEY record.
KeyId key_of(std::string_view key) {
    return {.tag = key_tag(key), .algorithm = static_cast<std::uint8_t>(key[3])};
}

/// Several signatures over the same records stand in for each other.
std::optional<Validity> validity_of(const Records& records, const NameKey& apex) {
    std::map<std::pair<std::string_view, std::uint16_t>, Validity> of; // an owner and a type
    for (const ZoneRecord& record : records) {
        if (record.type == kTypeRrsig && record.owner.within(apex)) {
            auto& valid =
                of.try_emplace({record.owner.key(), record.covered}, record.valid).first->second;
            valid = {.from = std::min(valid.from, record.valid.from),
                     .until = std::max(valid.until, record.valid.until)};
        }
    }
    if (of.empty()) {
        return std::nullopt;
    }
    Validity all;
    for (const auto& [what, valid] : of) {
        all = {.from = std::max(all.from, valid.from), .until = std::min(all.until, valid.until)};
    }
    return all;
}

/// Fills a zone record by record; delegations are known only at the end, so glue is marked there.
class Filler {
public:
    explicit Filler(NameKey apex) { zone_.name = std::move(apex); }

    void add(const ZoneRecord& record) {
        if (!record.owner.within(zone_.name)) {
            ++zone_.out_of_zone;
            return;
        }
        if (const auto address = address_of(record)) {
            zone_.hosts.push_back({record.owner, *address});
        } else if (record.type == kTypeNs) {
            add_server(record);
        } else if (record.type == kTypeCname || record.type == kTypeDname) {
            zone_.aliases.push_back({record.owner, target_of(record), record.type == kTypeDname});
        } else if (record.type == kTypeDnskey && record.owner == zone_.name) {
            add_key(record);
        } else if (record.type == kTypeRrsig) {
            add_signature(record);
        }
        if (record.type == kTypeDs && record.rdata.size() == 3) {
            has_ds_ = true;
            cuts_[record.owner].ds.push_back(
                {.tag = load16(bytes_of(record.rdata).data()),
                 .algorithm = static_cast<std::uint8_t>(record.rdata[2])});
        }
        const bool denial = record.type == kTypeNsec || record.type == kTypeNsec3Param;
        zone_.denies = zone_.denies || (denial && record.owner == zone_.name);
    }

    Zone finish() {
        mark_glue();
        check_anchors();
        for (auto& [name, cut] : cuts_) {
            // Below another cut nobody is ever sent there, and not without a server.
            if (!cut.servers.empty() &&
                (zone_.delegations.empty() || !name.within(zone_.delegations.back().name))) {
                cut.name = name;
                zone_.delegations.push_back(std::move(cut));
            }
        }
        return std::move(zone_);
    }

private:
    void add_server(const ZoneRecord& record) {
        if (record.owner == zone_.name) {
            zone_.ns_ttl = record.ttl;
            zone_.servers.push_back(target_of(record));
        } else {
            cuts_[record.owner].servers.push_back(target_of(record));
        }
    }

    /// Flags 257: a zone key, a secure entry point, not revoked (RFC 5011). With an algorithm
    /// that resolvers validate: knot-resolver does not start with an anchor of another.
    void add_key(const ZoneRecord& record) {
        constexpr std::uint8_t kZone = 1;
        constexpr std::uint8_t kEntryPoint = 1;
        constexpr std::string_view kAlgorithms = "\x05\x07\x08\x0a\x0d\x0e\x0f\x10";
        if (record.rdata.size() <= 4) {
            return;
        }
        zone_.keys.push_back(key_of(record.rdata));
        if (record.rdata[0] == kZone && record.rdata[1] == kEntryPoint &&
            kAlgorithms.find(record.rdata[3]) != std::string_view::npos) {
            zone_.anchors.push_back({record.ttl, record.rdata});
        }
    }

    void add_signature(const ZoneRecord& record) {
        const bool apex = record.owner == zone_.name;
        if (apex && record.covered == kTypeDnskey) {
            signatures_.push_back(record.signer);
        }
        servers_signed_ = servers_signed_ || (apex && record.covered == kTypeNs);
        signs_delegations_ = signs_delegations_ || record.covered == kTypeDs;
    }

    /// Whether a key signs all keys; a key that does not cannot be an anchor.
    [[nodiscard]] bool signs_keys(const TrustAnchor& anchor) const {
        return std::ranges::find(signatures_, key_of(anchor.rdata)) != signatures_.end();
    }

    /// A resolver with an anchor for a zone whose signatures are gone, all or but those over the
    /// keys, fails every query; without the anchor it only validates nothing. The zone's DS records
    /// stand for all data, or where it has none its servers.
    void check_anchors() {
        zone_.signs_keys = !signatures_.empty();
        const bool has_keys = !zone_.anchors.empty();
        const bool data_signed = has_ds_ ? signs_delegations_ : servers_signed_;
        std::erase_if(zone_.anchors, [&](const TrustAnchor& anchor) {
            return !data_signed || !signs_keys(anchor);
        });
        zone_.keys_unsigned = has_keys && zone_.anchors.empty();
    }

    /// Also data below a cut that is no name server's: no server gives it as its own.
    void mark_glue() {
        if (cuts_.empty()) {
            return;
        }
        std::unordered_set<std::string_view> cuts;
        for (const auto& [name, cut] : cuts_) {
            if (!cut.servers.empty()) {
                cuts.insert(name.key());
            }
        }
        for (HostAddress& host : zone_.hosts) {
            host.glue = std::ranges::any_of(
                host.host.enclosing(), [&](std::string_view key) { return cuts.contains(key); });
        }
    }

    Zone zone_;
    std::map<NameKey, Delegation> cuts_; ///< and names that have DS records alone
    std::vector<KeyId> signatures_;      ///< over the keys: by which they are
    bool has_ds_ = false;
    bool servers_signed_ = false;
    bool signs_delegations_ = false;
};

/// The zone's name as a file's name tells it: "example.com.zone" -> example.com., "root.zone" ->
/// the root.
NameKey name_of_file(std::string_view file) {
    constexpr std::array<std::string_view, 3> kRoots{"root", "@", ""};
    std::string_view stem = file.substr(file.rfind('/') + 1);
    if (stem.ends_with(".zone")) {
        stem.remove_suffix(5);
    }
    return std::ranges::find(kRoots, stem) != kRoots.end()
               ? NameKey{}
               : NameKey::parse(stem).value_or(NameKey{});
}

/// Throws ZoneError where no server would load it: without a SOA or with several, without NS at the
/// apex, with other data beside a CNAME. With `expected` the SOA must be that name's. Records
/// outside the zone are counted and left out.
Zone make_zone(const Records& records, const std::optional<NameKey>& expected) {
    const NameKey apex = apex_of(records, expected);
    check_aliases(records, apex);
    check_records(records, apex);
    Filler filler(apex);
    for (const ZoneRecord& record : records) {
        filler.add(record);
    }
    Zone zone = filler.finish();
    zone.below_dname = records_below(records, apex);
    zone.signatures = validity_of(records, apex);
    if (zone.servers.empty()) {
        throw ZoneError(0, fmt::format("no NS record at {}", zone.name.text()));
    }
    return zone;
}

} // namespace

Zone read_zone(std::string_view text, const std::string& file, std::optional<NameKey>& name) {
    const NameKey guess = name.value_or(name_of_file(file));
    Zone zone = make_zone(scan_zone(text, guess), name);
    name = zone.name;
    // A server completes relative names by the zone's name, which only now is known.
    if (zone.name != guess) {
        return read_zone(text, file, name);
    }
    zone.file = file;
    return zone;
}

} // namespace reprise::zonebuilder
