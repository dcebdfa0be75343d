#pragma once
// Which address serves which zones, and the groups of addresses that serve the same.

#include "core/base/address.hh"
#include "zonebuilder/zone/zone.hh"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::zonebuilder {

/// The addresses of host names in all zones together. Wildcards, CNAMEs and DNAMEs lead to
/// addresses too: name servers' names should be no aliases (RFC 2181 section 10.3), but some are,
/// and some resolvers follow them.
class AddressBook {
public:
    explicit AddressBook(const std::vector<Zone>& zones);

    /// Where the host really is: what zones that own the name say; where none does, what glue says.
    [[nodiscard]] std::vector<IpAddress> real(const NameKey& host) const;

    /// Everywhere a resolver may look for it: own data and all glue, however stale.
    [[nodiscard]] std::vector<IpAddress> any(const NameKey& host) const;

private:
    /// What is known of a name.
    struct Host {
        std::vector<IpAddress> own;
        std::vector<IpAddress> glue;
        std::vector<NameKey> aliases;
        std::vector<NameKey> subtrees; ///< targets of DNAMEs
        bool everywhere = false;       ///< has own addresses in every content of its zone
    };

    struct Search;

    [[nodiscard]] const Host* find(std::string_view key) const;
    void look_at(const NameKey& name, Search& search) const;
    void look_above(const NameKey& name, bool known, Search& search) const;
    [[nodiscard]] Search look_for(const NameKey& host) const;

    /// Keys are looked up without a copy.
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };

    std::unordered_map<std::string, Host, Hash, std::equal_to<>> hosts_; ///< by key
};

// Which addresses no packet of an experiment can be sent to.

/// A prefix that is kept out of the map, and why.
struct Reserved {
    Prefix prefix;
    std::string why;
};

/// Ranges that never leave a host or have no single owner: loopback, multicast and their like.
const std::vector<Reserved>& never_routable();

/// Why packets to an address cannot be sent to the emulated hierarchy; none where they can.
std::optional<std::string> why_unroutable(const IpAddress& address,
                                          const std::vector<Reserved>& reserved);

/// The n-th address of a prefix; none where it has no such. The last address of an IPv4 prefix
/// counts as missing, for it may be a broadcast address.
std::optional<IpAddress> nth_address(const Prefix& prefix, std::uint64_t n);

using GroupIndex = std::uint32_t;

/// An address of a name server to which no packet can be sent.
struct Unroutable {
    IpAddress address;
    std::string why;
    std::vector<ZoneIndex> zones; ///< that it would serve
};

/// A zone that no resolver can reach.
struct Unserved {
    ZoneIndex zone = 0;
    std::string why;
};

struct Serving {
    std::map<IpAddress, std::vector<ZoneIndex>> zones_of; ///< ascending zones
    std::vector<Unroutable> unroutable;                   ///< by address
    std::vector<Unserved> unserved;                       ///< by zone
};

/// Takes the stated addresses of each zone, else those of its name servers by its apex and its
/// parent. The zones are sorted by name.
Serving serve(const std::vector<Zone>& zones, const AddressBook& book,
              const std::vector<Reserved>& reserved);

/// Later contents of a zone name that claim an address of an earlier one: an address has one
/// content.
std::vector<BadZone> contradictions(const std::vector<Zone>& zones, const AddressBook& book);

/// Addresses that serve exactly the same zones: a node of the conflict graph.
struct Group {
    std::vector<ZoneIndex> zones;     ///< ascending
    std::vector<IpAddress> addresses; ///< ascending

    [[nodiscard]] bool serves(ZoneIndex zone) const;

    [[nodiscard]] bool serves_any(ZoneRange range) const;
};

/// The groups, ordered by their zones.
std::vector<Group> make_groups(const Serving& serving);

/// Adds today's and former addresses of the Internet's root servers to the (smallest) group that
/// serves the root: so a resolver with old hints finds it. Addresses that are taken or reserved
/// stay as they are. Returns how many it added.
std::size_t add_root_addresses(std::vector<Group>& groups, const ZoneTree& tree,
                               const std::vector<Reserved>& reserved);

/// The group of every address.
std::unordered_map<IpAddress, GroupIndex> group_of_address(const std::vector<Group>& groups);

/// The groups that serve each zone, ascending.
std::vector<std::vector<GroupIndex>> groups_of_zones(const std::vector<Group>& groups,
                                                     std::size_t zones);

} // namespace reprise::zonebuilder
