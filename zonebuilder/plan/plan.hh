#pragma once
// A plan: who serves which zones, which groups of addresses may not share a view; instances of the
// meta-DNS-server, slots and views; and all of it as texts.

#include "core/base/address.hh"
#include "zonebuilder/zone/zone.hh"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {

/// The addresses of host names in all zones together. Wildcards, CNAMEs and DNAMEs lead to
/// addresses too: name servers' names should be no aliases (RFC 2181 section 10.3), but some are,
/// and some resolvers follow them.
class AddressBook {
public:
    /// The zones are sorted by name, and stay where they are.
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
    void look_above(const NameKey& name, bool known, Search& search) const;
    [[nodiscard]] Search look_for(const NameKey& host) const;

    std::unordered_map<std::string_view, Host> hosts_; ///< by key, which is in a zone
};

// Which addresses no packet of an experiment can be sent to.

/// A prefix that is kept out of the map, and why.
struct Reserved {
    Prefix prefix;
    std::string why;
};

/// Why packets to an address cannot be sent to the emulated hierarchy; none where they can.
std::optional<std::string> why_unroutable(const IpAddress& address,
                                          const std::vector<Reserved>& reserved);

/// The n-th address of a prefix; none where it has no such. The last address of an IPv4 prefix
/// counts as missing, for it may be a broadcast address.
std::optional<IpAddress> nth_address(const Prefix& prefix, std::uint64_t n);

using GroupIndex = std::uint32_t;

/// Of an address of a name server to which no packet can be sent.
struct Unroutable {
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
    std::map<IpAddress, Unroutable> unroutable;
    std::vector<Unserved> unserved; ///< by zone
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
    std::uint32_t slot = 0;           ///< from 0, once there are slots

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

// Delegations to servers that do not serve what is delegated to them.

/// One address that a resolver asks about `zone` although it does not serve that.
struct Lame {
    NameKey zone;
    NameKey parent; ///< the zone with the NS record: the parent, or the zone itself
    NameKey server;
    IpAddress address;
    bool built = true; ///< the zone is among those here, at other addresses

    auto operator<=>(const Lame&) const = default;
};

/// Looks at every NS record, of parents and of apexes: resolvers believe both. Addresses outside
/// the map count only where the delegated zone is among `zones`; delegations to zones that nobody
/// has are no fault.
std::vector<Lame> find_lame(const std::vector<Zone>& zones, const ZoneTree& tree,
                            const AddressBook& book, const std::vector<Group>& groups,
                            const std::unordered_map<IpAddress, GroupIndex>& group_of);

/// The server that answers. NSD follows aliases into every zone it has; BIND stays in the first.
enum class Engine { kBind, kNsd };

/// Two groups that no view may hold together; first < second.
struct Edge {
    GroupIndex first = 0;
    GroupIndex second = 0;

    auto operator<=>(const Edge&) const = default;
};

/// All edges of the conflict graph, ascending, each once. conflicts.cc says which these are and
/// why.
std::vector<Edge> find_conflicts(const std::vector<Zone>& zones, const ZoneTree& tree,
                                 const std::vector<Group>& groups, const std::vector<Lame>& lame,
                                 const std::unordered_map<IpAddress, GroupIndex>& group_of,
                                 Engine engine);

using Color = std::uint32_t; ///< from 0

/// A color for each of `nodes` nodes, such that no edge joins two of one color; the same for the
/// same graph on every machine. Every edge's ends are below `nodes`.
std::vector<Color> color_graph(std::size_t nodes, const std::vector<Edge>& edges);

// From groups to what servers and data paths are told.

/// How a server tells for which OQDA a query is: by the color in its destination address, by its
/// source address (the OQDA itself), or by a destination address for every group.
enum class Form { kColored, kPaper, kSeparate };

/// A meta address for each resolver. Slots, instances and colors are counted from 1 in all
/// outputs.
struct Slot {
    unsigned instance = 0; ///< from 0
    Color color = 0;
    std::vector<GroupIndex> groups;
    std::vector<ZoneIndex> zones; ///< ascending, each once
};

/// Deals groups to instances: equally many zones for each, and groups with common zones together,
/// for an instance loads a zone once. Returns each group's instance, from 0.
std::vector<unsigned> assign_instances(const std::vector<Group>& groups, unsigned count);

/// The slots by instance and color; paper: one an instance, separate: one a group. Gives each group
/// its own.
std::vector<Slot> make_slots(std::vector<Group>& groups, const std::vector<Color>& colors,
                             const std::vector<unsigned>& instances, Form form);

/// A resolver under test: the addresses that its queries upstream come from.
struct Resolver {
    std::optional<IpAddress> v4;
    std::optional<IpAddress> v6;
};

/// The meta addresses of a slot and a resolver.
struct MetaAddress {
    std::uint32_t slot = 0;     ///< from 0
    std::uint32_t resolver = 0; ///< from 0
    IpAddress v4;
    IpAddress v6;
};

/// Numbers them from the second address of both prefixes on, slot by slot. Throws Error where a
/// prefix is too small.
std::vector<MetaAddress> meta_addresses(std::size_t slots, std::size_t resolvers, const Prefix& v4,
                                        const Prefix& v6);

struct PlanSettings {
    Engine engine = Engine::kBind;
    Form form = Form::kColored;
    unsigned instances = 1;
    std::vector<Resolver> resolvers{};
    Prefix meta4{};
    Prefix meta6{};
    std::vector<Reserved> reserved{}; ///< besides the resolvers' addresses and the meta prefixes
    bool root_addresses = true;       ///< add the Internet's root servers to the root's group
};

/// The real addresses of one root server.
struct RootServer {
    NameKey name;
    std::uint32_t ttl = 0;
    std::vector<IpAddress> addresses;
};

/// A zone that the root's anchors lead to.
struct Trusted {
    ZoneIndex zone = 0;
    std::string_view why; ///< why its answers cannot be validated; empty if they can
};

struct Plan {
    std::vector<Group> groups;
    std::vector<Lame> lame;
    std::map<IpAddress, Unroutable> unroutable;
    std::vector<Unserved> unserved;
    std::vector<Edge> edges;
    Color colors = 0;
    std::vector<Slot> slots;
    std::vector<MetaAddress> meta;
    std::vector<RootServer> root_servers;
    std::vector<TrustAnchor> anchors; ///< of the root
    bool root_keys_unsigned = false;  ///< it has keys, but not one of them can be an anchor
    std::vector<Trusted> trusted;     ///< zones whose answers a validating resolver checks
    std::size_t root_addresses = 0;   ///< of the Internet's root servers that were added
    std::map<std::string, double> seconds;
};

/// Plans zones that are sorted by name and file and free of contradictions. Throws Error where
/// nothing can be served or the settings do not fit.
/// `asked` are answered as little as they were.
Plan make_plan(const std::vector<Zone>& zones, const PlanSettings& settings,
               const std::vector<AskedInVain>& asked = {});

// A plan as texts of files; nothing here touches a file.

/// map.tsv: what the data paths need.
std::string map_text(const Plan& plan, const PlanSettings& settings);

/// The emulated root's servers and their addresses; without a root zone only a comment.
std::string root_hints(const Plan& plan);

/// The root's key-signing keys as zone text; empty where the root is unsigned.
std::string root_key(const Plan& plan);

/// plan.json, schema 1.
std::string plan_json(const Plan& plan, const PlanSettings& settings,
                      const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

/// What a person wants to know, a few lines.
std::string summary_text(const Plan& plan, const PlanSettings& settings,
                         const std::vector<Zone>& zones, const std::vector<BadZone>& failed);

} // namespace reprise::zonebuilder
