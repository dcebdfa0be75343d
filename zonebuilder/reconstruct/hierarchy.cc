// Whom to believe.
//
// A server may speak for a zone if a chain of referrals from the root leads to it: a server that
// may speak for the parent names it in NS records, and its address is known from glue or from the
// zone that its name lies in. Who may speak for a zone may speak for everything below, too, and so
// name the zones there. All else is not believed: a leaf's server does not redefine com. This is a
// worklist over (server, zone): each of what a server said is looked at once, when the first zone
// that encloses it becomes the server's.
//
// A capture behind a warm cache lacks parts of the chain. What is left over is taken on the
// server's word, the shortest names first; but not if the server was only asked for names in lower
// zones that are its own by other evidence, for then nobody believed it to serve more. A server
// that is none of the zone's name servers, all of which are known, is marked: what those say
// counts first. Last come servers that named no zone at all: their answers get the zone that is
// known to enclose them, else one that is assumed.
#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "zonebuilder/reconstruct/build.hh"
#include "zonebuilder/reconstruct/observations.hh"
#include "zonebuilder/reconstruct/response.hh"
#include "zonebuilder/zone/zone.hh"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Puts a value where it belongs in a sorted list; false where it is there.
template <typename T> bool insert_sorted(std::vector<T>& list, const T& value) {
    const auto place = std::ranges::lower_bound(list, value);
    if (place != list.end() && *place == value) {
        return false;
    }
    list.insert(place, value);
    return true;
}

} // namespace

class Hierarchy::Discovery {
public:
    Discovery(Hierarchy& found, Observations& seen)
        : found_(found), seen_(seen), names_(seen.names()) {
        list_items();
    }

    void run() {
        trust_root_servers();
        propagate();
        take_claims();
        take_unnamed();
        take_hidden();
        propagate();
    }

private:
    // A packet may name thousands, and what is kept is their product.
    static constexpr std::size_t kMostTargets = 64;   ///< of a zone
    static constexpr std::size_t kMostAddresses = 64; ///< of a name server

    /// What a server said about the hierarchy: an observation or a claim.
    struct Item {
        NameId name;
        std::uint32_t index;
        bool is_claim;
        bool done;
    };

    // Lists

    std::vector<NameId> targets_of(ContentId content) {
        return servers_in(seen_.contents()[content], names_);
    }

    /// What servers said of zones and of name servers' addresses. No zone has a wildcard's name.
    void list_items() {
        const auto& rrsets = seen_.rrsets();
        std::unordered_set<NameId> targets;
        for (const Observation& one : rrsets) {
            if (one.type == kTypeNs) {
                const auto servers = targets_of(one.content);
                targets.insert(servers.begin(), servers.end());
            }
        }
        items_.resize(seen_.servers());
        const auto add = [this](ServerId server, const Item& item) {
            if (!names_.is_wildcard(item.name)) {
                items_[server].push_back(item);
            }
        };
        for (std::uint32_t i = 0; i < rrsets.size(); ++i) {
            const Observation& one = rrsets[i];
            if ((one.type == kTypeNs && one.rank != Rank::kUnauthoritative) ||
                (is_address(one.type) && targets.contains(one.owner))) {
                add(one.server, {one.owner, i, false, false});
            }
        }
        const auto& claims = seen_.claims();
        for (std::uint32_t i = 0; i < claims.size(); ++i) {
            add(claims[i].server, {claims[i].zone, i, true, false});
        }
        for (auto& list : items_) {
            std::ranges::sort(list, {}, [this](const Item& one) {
                return std::tuple(names_.key(one.name), one.is_claim, one.index);
            });
        }
    }

    // Facts

    CutIndex cut(NameId name) {
        if (name >= found_.cut_at_.size()) {
            found_.cut_at_.resize(names_.size(), kNone);
        }
        CutIndex& index = found_.cut_at_[name];
        if (index == kNone) {
            index = static_cast<CutIndex>(found_.cuts_.size());
            found_.cuts_.push_back({.name = name});
        }
        return index;
    }

    bool trust(ServerId server, CutIndex index) {
        if (!insert_sorted(found_.cuts_[index].servers, server)) {
            return false;
        }
        if (server >= found_.cuts_of_.size()) {
            found_.cuts_of_.resize(server + 1UL);
        }
        insert_sorted(found_.cuts_of_[server], index);
        work_.emplace_back(server, index);
        return true;
    }

    void add_targets(CutIndex index, ContentId content) {
        for (const NameId target : targets_of(content)) {
            if (found_.cuts_[index].targets.size() >= kMostTargets) {
                ++found_.over_limit_;
                continue;
            }
            if (!insert_sorted(found_.cuts_[index].targets, target)) {
                continue;
            }
            wanting_[target].push_back(index);
            for (const IpAddress& address : found_.addresses(target)) {
                trust(seen_.server(address), index);
            }
        }
    }

    void add_addresses(NameId target, ContentId content) {
        for (const std::string_view rdata : rdatas(seen_.contents()[content])) {
            const auto* const bytes = bytes_of(rdata).data();
            const IpAddress address =
                rdata.size() == 4 ? IpAddress::v4(bytes) : IpAddress::v6(bytes);
            auto& known = found_.addresses_[target];
            if (known.size() >= kMostAddresses) {
                ++found_.over_limit_;
            } else if (insert_sorted(known, address)) {
                for (const CutIndex index : wanting_[target]) {
                    trust(seen_.server(address), index);
                }
            }
        }
    }

    /// What a server said and may say.
    void believe(ServerId server, const Item& item) {
        if (item.is_claim) {
            const CutIndex index = cut(item.name);
            found_.cuts_[index].claimed = true;
            trust(server, index);
            return;
        }
        const Observation& one = seen_.rrsets()[item.index];
        if (one.type != kTypeNs) {
            add_addresses(one.owner, one.content);
            return;
        }
        const CutIndex index = cut(one.owner);
        (one.rank == Rank::kReferral ? found_.cuts_[index].delegated
                                     : found_.cuts_[index].claimed) = true;
        add_targets(index, one.content);
    }

    void propagate() {
        while (!work_.empty()) {
            const auto [server, index] = work_.back();
            work_.pop_back();
            if (server >= items_.size()) {
                continue; // an address that never answered
            }
            const std::string_view zone = names_.key(found_.cuts_[index].name);
            auto& list = items_[server];
            auto item = std::ranges::lower_bound(
                list, zone, {}, [this](const Item& one) { return names_.key(one.name); });
            for (; item != list.end() && names_.key(item->name).starts_with(zone); ++item) {
                if (!std::exchange(item->done, true)) {
                    believe(server, *item);
                }
            }
        }
    }

    // Where the chain begins

    void trust_root_servers() {
        for (const std::string_view text : kRootServerAddresses) {
            const auto server = seen_.find_server(known_prefix(text).address);
            if (server && !items_[*server].empty()) {
                trust(*server, cut(NameTable::kRoot));
            }
        }
    }

    /// Whether it names the zone of a question that lies in none of the zones that are the server's
    /// by other evidence: those that it is trusted for, and lower ones that it claims.
    [[nodiscard]] bool supported(const Claim& claim) const {
        for (NameId name = claim.common; name != claim.zone; name = names_.parent(name)) {
            const CutIndex index = found_.at(name);
            if ((index != kNone && found_.serves(claim.server, index)) ||
                claimed_.contains({claim.server, name})) {
                return false;
            }
        }
        return true;
    }

    /// Whether a zone's servers are all known, so that another one cannot be one of them.
    [[nodiscard]] bool complete(const Cut& cut) const {
        return !cut.targets.empty() && std::ranges::none_of(cut.targets, [this](NameId target) {
            return found_.addresses(target).empty();
        });
    }

    void take_claim(const Claim& claim) {
        if (found_.trusts(claim.server, claim.zone)) {
            return;
        }
        if (!supported(claim)) {
            found_.distrusted_.push_back(
                {.server = claim.server, .zone = claim.zone, .time = claim.time});
        } else {
            const CutIndex index = cut(claim.zone);
            found_.cuts_[index].claimed = true;
            if (complete(found_.cuts_[index])) {
                insert_sorted(found_.cuts_[index].unlisted, claim.server);
            }
            trust(claim.server, index);
            propagate();
        }
    }

    void take_claims() {
        std::vector<Claim> claims = seen_.claims();
        std::erase_if(claims, [this](const Claim& claim) {
            return found_.trusts(claim.server, claim.zone) || names_.is_wildcard(claim.zone);
        });
        for (const Claim& claim : claims) {
            claimed_.insert({claim.server, claim.zone});
        }
        std::ranges::sort(claims, {}, [this](const Claim& claim) {
            return std::tuple(names_.labels(claim.zone), -std::int64_t{claim.count}, claim.time,
                              seen_.address(claim.server), names_.key(claim.zone));
        });
        for (const Claim& claim : claims) {
            take_claim(claim);
        }
    }

    /// Names for which a server answered with authority, and parents of zones that it referred to;
    /// by server, and by the two labels below the root, which most often are somebody's own.
    using Unnamed = std::map<std::pair<IpAddress, std::string>, std::vector<NameId>>;

    void add_unnamed(Unnamed& unnamed, ServerId server, NameId name) {
        if (found_.trusts(server, name)) {
            return;
        }
        NameId group = name;
        while (names_.labels(group) > 2) {
            group = names_.parent(group);
        }
        unnamed[{seen_.address(server), std::string(names_.key(group))}].push_back(name);
    }

    /// The lowest zone that holds all the names; of one name alone, which most often is a host's,
    /// the one above it, but nothing above `top`. None where that is a wildcard's name.
    std::optional<NameId> zone_of(const std::vector<NameId>& names, NameId top) {
        NameId zone = names.front();
        for (const NameId name : names) {
            zone = names_.common(zone, name);
        }
        const bool alone = std::ranges::all_of(names, [&](NameId name) { return name == zone; });
        zone = alone && names_.below(zone, top) ? names_.parent(zone) : zone;
        while (names_.is_wildcard(zone) && zone != top) {
            zone = names_.parent(zone);
        }
        return names_.is_wildcard(zone) ? std::nullopt : std::optional(zone);
    }

    void take_unnamed() {
        Unnamed unnamed;
        for (const Observation& one : seen_.rrsets()) {
            if (one.rank == Rank::kAnswer) {
                const bool above = one.type == kTypeDs;
                add_unnamed(unnamed, one.server, above ? names_.parent(one.owner) : one.owner);
            } else if (one.rank == Rank::kReferral && one.type == kTypeNs) {
                add_unnamed(unnamed, one.server, names_.parent(one.owner));
            }
        }
        for (const auto& [key, names] : unnamed) {
            const ServerId server = seen_.server(key.first);
            const auto zone = zone_of(names, names_.add(key.second));
            if (!zone || found_.trusts(server, *zone)) {
                continue;
            }
            const CutIndex known = found_.enclosing(*zone);
            const bool open = known != kNone && names_.labels(found_.cuts_[known].name) > 1 &&
                              !complete(found_.cuts_[known]);
            const CutIndex index = open ? known : cut(*zone);
            found_.cuts_[index].assumed = found_.cuts_[index].assumed || !open;
            trust(server, index);
            propagate();
        }
    }

    /// A server that refers to a zone is none of its servers. What it answers with authority below
    /// is from a zone of its own further down, which it does not name: root servers have
    /// root-servers.net.
    void take_hidden() {
        std::set<std::pair<ServerId, NameId>> refers;
        for (const Observation& one : seen_.rrsets()) {
            if (one.rank == Rank::kReferral && one.type == kTypeNs) {
                refers.insert({one.server, one.owner});
            }
        }
        std::map<NameId, std::vector<NameId>> hidden; // names by the one below the zone
        std::map<NameId, std::vector<ServerId>> servers;
        for (const Observation& one : seen_.rrsets()) {
            const CutIndex lowest = found_.enclosing(one.owner);
            if (one.rank != Rank::kAnswer || one.type == kTypeDs || lowest == kNone ||
                !refers.contains({one.server, found_.cuts_[lowest].name}) ||
                found_.serves(one.server, lowest) || one.owner == found_.cuts_[lowest].name) {
                continue;
            }
            const NameId below = names_.lowest(one.owner, [&](NameId name) {
                return names_.parent(name) == found_.cuts_[lowest].name;
            });
            hidden[below].push_back(one.owner);
            servers[below].push_back(one.server);
        }
        for (const auto& [below, names] : hidden) {
            if (const auto zone = zone_of(names, below)) {
                const CutIndex index = cut(*zone);
                found_.cuts_[index].assumed = true;
                for (const ServerId server : servers[below]) {
                    trust(server, index);
                }
            }
        }
    }

    Hierarchy& found_;
    Observations& seen_;
    NameTable& names_;
    std::vector<std::vector<Item>> items_; ///< of a ServerId; sorted by key
    std::vector<std::pair<ServerId, CutIndex>> work_;
    std::unordered_map<NameId, std::vector<CutIndex>> wanting_; ///< zones with this name server
    std::set<std::pair<ServerId, NameId>> claimed_;
};

Hierarchy::Hierarchy(Observations& observations) : names_(&observations.names()) {
    cuts_of_.resize(observations.servers());
    Discovery(*this, observations).run();
}

CutIndex Hierarchy::enclosing(NameId name) const {
    return at(names_->lowest(name, [this](NameId one) { return at(one) != kNone; }));
}

CutIndex Hierarchy::enclosing_of(ServerId server, NameId name) const {
    return at(names_->lowest(name, [&](NameId one) { return serves(server, at(one)); }));
}

bool Hierarchy::serves(ServerId server, CutIndex cut) const {
    return server < cuts_of_.size() && std::ranges::binary_search(cuts_of_[server], cut);
}

const std::vector<IpAddress>& Hierarchy::addresses(NameId target) const {
    static const std::vector<IpAddress> none;
    const auto found = addresses_.find(target);
    return found == addresses_.end() ? none : found->second;
}

} // namespace reprise::zonebuilder
