// An address is lame for a zone d when an NS record sends resolvers there for d and it does not
// serve d.
//
// Every NS record counts, because resolvers differ in whom they believe: the parent's (a
// referral's) or the zone's own (which replaces it in most caches). And every address of the
// server's name counts, for resolvers use glue until they know better, and some follow a name that
// is an alias. To see too many costs an
// edge in the graph; to miss one would let a lame server answer. Delegations to zones that nobody
// has here are most of what a TLD holds: they matter only if they lead to an address in the map.
#include "zonebuilder/plan/lame.hh"

#include "core/base/address.hh"
#include "zonebuilder/plan/address_book.hh"
#include "zonebuilder/plan/serving.hh"
#include "zonebuilder/zone/name_key.hh"
#include "zonebuilder/zone/zone.hh"
#include "zonebuilder/zone/zone_tree.hh"

#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

/// Everything that the question "is it lame?" needs, and what was found.
class Search {
public:
    Search(const ZoneTree& tree, const AddressBook& book, const std::vector<Group>& groups,
           const std::unordered_map<IpAddress, GroupIndex>& group_of)
        : tree_(tree), book_(book), groups_(groups), group_of_(group_of) {}

    void look_at(const NameKey& zone, const NameKey& parent, const std::vector<NameKey>& servers) {
        const ZoneRange contents = tree_.at(zone.key());
        for (const NameKey& server : servers) {
            for (const IpAddress& address : book_.any(server)) {
                if (is_lame(contents, address)) {
                    found_.push_back({zone, parent, server, address, !contents.empty()});
                }
            }
        }
    }

    /// Sorted, each once: apex and parent often say the same.
    std::vector<Lame> finish() {
        sort_unique(found_);
        return std::move(found_);
    }

private:
    [[nodiscard]] bool is_lame(ZoneRange contents, const IpAddress& address) const {
        const auto group = group_of_.find(address);
        if (group == group_of_.end()) {
            return !contents.empty();
        }
        return !groups_[group->second].serves_any(contents);
    }

    const ZoneTree& tree_;
    const AddressBook& book_;
    const std::vector<Group>& groups_;
    const std::unordered_map<IpAddress, GroupIndex>& group_of_;
    std::vector<Lame> found_;
};

} // namespace

std::vector<Lame> find_lame(const std::vector<Zone>& zones, const ZoneTree& tree,
                            const AddressBook& book, const std::vector<Group>& groups,
                            const std::unordered_map<IpAddress, GroupIndex>& group_of) {
    Search search(tree, book, groups, group_of);
    for (const Zone& zone : zones) {
        search.look_at(zone.name, zone.name, zone.servers);
        for (const Delegation& delegation : zone.delegations) {
            search.look_at(delegation.name, zone.name, delegation.servers);
        }
    }
    return search.finish();
}

} // namespace reprise::zonebuilder
