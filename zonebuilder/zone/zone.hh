#pragma once
// Names as the planner has them, what it keeps of a zone, and how it reads them.

#include "core/base/address.hh"
#include "core/base/error.hh"
#include "core/dns/name.hh"
#include "core/dns/words.hh" // IWYU pragma: export

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

/// A domain name in lower case, kept as its labels from the root down, each behind its length
/// octet ("\3com\7example"). So a zone's key is a prefix of the keys of all names in it, and
/// sorting puts everything below a name right behind it. The root's key is empty.
class NameKey {
public:
    NameKey() = default;

    /// The name at the beginning of uncompressed wire data; none where that is cut or too long.
    static std::optional<NameKey> from_wire(std::span<const std::uint8_t> wire);

    /// Reads text as in a zone file ("a\.b.example."); relative names are taken as absolute.
    static std::optional<NameKey> parse(std::string_view text);

    /// Of what key() gave.
    static NameKey of_key(std::string_view key);

    /// Absolute, everything but letters, digits, '-', '_', '*' and '/' as \DDD: safe in zone files
    /// and in quotes.
    [[nodiscard]] std::string text() const;

    [[nodiscard]] const std::string& key() const { return key_; }

    [[nodiscard]] bool is_root() const { return key_.empty(); }

    /// Equal to `zone` or below it.
    [[nodiscard]] bool within(const NameKey& zone) const { return key_.starts_with(zone.key_); }

    /// The name that a DNAME makes of this one, which is below its owner; none where it is too
    /// long.
    [[nodiscard]] std::optional<NameKey> moved(std::string_view owner_key,
                                               const NameKey& target) const;

    /// The keys of the root, ..., the parent, and the name itself; they point into this name.
    [[nodiscard]] std::vector<std::string_view> enclosing() const;

    auto operator<=>(const NameKey&) const = default;

private:
    std::string key_;
};

/// Room for the longest key (RFC 1035 section 2.3.4).
using KeyRoom = std::array<char, Name::kMost>;

/// NameKey::from_wire(), without a name: its key, in `room`.
std::optional<std::string_view> key_from_wire(std::span<const std::uint8_t> wire, KeyRoom& room);

/// The key of the wildcard right below a name.
std::string wildcard_key(std::string_view key);

// A zone: who serves it, whom it delegates to, where its data points.

/// When signatures are valid, in seconds since 1970.
struct Validity {
    std::uint32_t from = 0;
    std::uint32_t until = UINT32_MAX;

    auto operator<=>(const Validity&) const = default;
};

/// What a DS record says about the key that it stands for, except the digest.
struct KeyId {
    std::uint16_t tag = 0;
    std::uint8_t algorithm = 0;

    bool operator==(const KeyId&) const = default;
};

/// A record as its zone file has it.
struct ZoneRecord {
    NameKey owner;
    std::uint16_t type = 0;
    std::uint16_t covered = 0; ///< the type that an RRSIG is over
    std::uint32_t ttl = 0;
    std::uint64_t line = 0;
    std::string rdata; ///< wire form; only of the types that the planner looks into
    Validity valid{};  ///< of an RRSIG
    KeyId signer{};    ///< the key that an RRSIG was made with
};

/// An NS RRset below the apex: the child's name and its servers.
struct Delegation {
    NameKey name;
    std::vector<NameKey> servers;
    std::vector<KeyId> ds; ///< of its DS records; none where it is not secure
};

struct HostAddress {
    NameKey host;
    IpAddress address;
    bool glue = false; ///< at or below a delegation, so not this zone's own data
};

/// Where an answer continues: a CNAME's target, or with `subtree` a DNAME's, which stands for all
/// names below it.
struct Alias {
    NameKey owner;
    NameKey target;
    bool subtree = false;
};

/// A DNSKEY that a resolver takes as trust anchor.
struct TrustAnchor {
    std::uint32_t ttl = 0;
    std::string rdata; ///< wire form
};

struct Zone {
    NameKey name;
    std::string file;                             ///< as given, below the zones' folder
    std::optional<std::vector<IpAddress>> stated; ///< addresses of zones.json
    std::uint32_t ns_ttl = 0;
    std::vector<NameKey> servers; ///< of the apex
    std::vector<Delegation> delegations;
    std::vector<HostAddress> hosts;
    std::vector<Alias> aliases;
    std::vector<TrustAnchor> anchors; ///< only where the zone is really signed
    bool keys_unsigned = false;       ///< it has keys for anchors, but no signatures
    std::vector<KeyId> keys;          ///< of the apex
    bool signs_keys = false;          ///< there is a signature over them
    bool denies = false;              ///< NSEC or NSEC3PARAM at the apex
    /// When every signed RRset has a signature that is valid; none without signatures.
    std::optional<Validity> signatures;
    std::uint64_t out_of_zone = 0; ///< records that no server takes, because they lie outside
    std::uint64_t below_dname = 0; ///< records that NSD does not take, because a DNAME is above
};

/// A zone that does not load.
struct BadZone {
    std::string name; ///< empty where nobody knows it
    std::string file;
    std::uint64_t line = 0; ///< 0 where it is about the whole file
    std::string why;
};

/// Types of queries and of messages, which no zone holds.
constexpr bool is_meta(std::uint16_t type) {
    return type == 0 || type == 41 || (type >= 128 && type <= 255); // 41: OPT
}

constexpr bool is_address(std::uint16_t type) { return type == kTypeA || type == kTypeAaaa; }

/// What may stand beside a CNAME (RFC 4035 section 2.5).
constexpr bool joins_alias(std::uint16_t type) {
    return type == kTypeRrsig || type == kTypeNsec || type == kTypeKey;
}

/// Records of a type are there for DNSSEC alone.
constexpr bool is_dnssec(std::uint16_t type) {
    return (type >= kTypeRrsig && type <= kTypeNsec3Param && type != 49) || type == kTypeDs ||
           type == 59 || type == 60 || type == 32769; // CDS, CDNSKEY, DLV
}

/// In order, each once.
template <typename T> void sort_unique(std::vector<T>& values) {
    std::ranges::sort(values);
    const auto twice = std::ranges::unique(values);
    values.erase(twice.begin(), twice.end());
}

/// Addresses of the Internet's root servers, of today and from before their renumberings; those of
/// a.root-servers.net come first.
inline constexpr std::string_view kRootServerAddresses[] = {
    "198.41.0.4",           "2001:503:ba3e::2:30", "170.247.170.2",  "2801:1b8:10::b",
    "199.9.14.201",         "2001:500:200::b",     "192.228.79.201", "2001:500:84::b",
    "128.9.0.107",          "2001:478:65::53",     "192.33.4.12",    "2001:500:2::c",
    "199.7.91.13",          "2001:500:2d::d",      "128.8.10.90",    "192.203.230.10",
    "2001:500:a8::e",       "192.5.5.241",         "2001:500:2f::f", "192.112.36.4",
    "2001:500:12::d0d",     "198.97.190.53",       "2001:500:1::53", "128.63.2.53",
    "2001:500:1::803f:235", "192.36.148.17",       "2001:7fe::53",   "192.58.128.30",
    "2001:503:c27::2:30",   "198.41.0.10",         "193.0.14.129",   "2001:7fd::1",
    "199.7.83.42",          "2001:500:9f::42",     "2001:500:3::42", "198.32.64.12",
    "202.12.27.33",         "2001:dc3::35"};

// Finds zones by name: those that enclose a name and those below it.

using ZoneIndex = std::uint32_t;

/// Zones [first, end) of the sorted list.
struct ZoneRange {
    ZoneIndex first = 0;
    ZoneIndex end = 0;

    [[nodiscard]] bool empty() const { return first == end; }
};

/// An index over zones that are sorted by name; it keeps no copy, so they must stay where they are.
/// Zones of one name are neighbors, and so are a name's descendants, right behind it: every answer
/// is a range.
class ZoneTree {
public:
    explicit ZoneTree(const std::vector<Zone>& zones);

    /// The zones with this key, one for each content.
    [[nodiscard]] ZoneRange at(std::string_view key) const;

    /// The zones below the name, without those at it.
    [[nodiscard]] ZoneRange below(const NameKey& name) const;

    /// For every zone name that encloses or equals `name`, root first, the zones there.
    [[nodiscard]] std::vector<ZoneRange> enclosing(const NameKey& name) const;

private:
    const std::vector<Zone>* zones_;
    std::unordered_map<std::string_view, ZoneRange> ranges_;
};

// Zone text -> records -> what the planner keeps of a zone.

/// Why a text is no zone, and in which line; 0 where it is in none.
class ZoneError : public Error {
public:
    ZoneError(std::uint64_t line, const std::string& why) : Error(why), line_(line) {}

    [[nodiscard]] std::uint64_t line() const { return line_; }

private:
    std::uint64_t line_;
};

/// All records of a zone file's text. `origin` completes relative names until the text has an
/// $ORIGIN. Throws ZoneError for the first thing wrong with it; $INCLUDE and $GENERATE are refused.
std::vector<ZoneRecord> scan_zone(std::string_view text, const NameKey& origin);

/// Reads a zone file's text. Where no `name` is given, it becomes that of the SOA, and until then
/// one guessed from the file's name completes relative names. Throws ZoneError.
Zone read_zone(std::string_view text, const std::string& file, std::optional<NameKey>& name);

// The planner's input: a folder of zone files, with or without zones.json.

/// One file to read: what zones.json says about it, or only its name.
struct ZoneEntry {
    std::optional<NameKey> name;
    std::string file;
    std::optional<std::vector<IpAddress>> addresses;
};

/// A name that servers are asked for although none of their zones is about it.
struct AskedInVain {
    NameKey name;
    std::vector<IpAddress> addresses;
};

struct ZoneList {
    std::vector<ZoneEntry> zones;
    std::vector<AskedInVain> asked;
};

/// Reads zones.json (schema 1). Throws Error that names the entry and the hint.
ZoneList parse_zones_json(std::string_view text);

/// What DIR/zones.json lists, or every *.zone file of DIR in the order of names.
ZoneList list_zones(const std::filesystem::path& folder);

struct LoadedZones {
    std::vector<Zone> zones; ///< by name, then by file
    std::vector<BadZone> bad;
};

/// Reads every file; what does not load is in `bad`.
LoadedZones load_zones(const std::filesystem::path& folder, const std::vector<ZoneEntry>& entries);

} // namespace reprise::zonebuilder
