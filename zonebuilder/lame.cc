#include "zonebuilder/lame.hh"

#include "core/address.hh"
#include "zonebuilder/address_book.hh"
#include "zonebuilder/name.hh"
#include "zonebuilder/serving.hh"
#include "zonebuilder/zone.hh"
#include "zonebuilder/zone_tree.hh"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::zonebuilder {
namespace {

class Search {
public:
    Search(const ZoneTree& tree, const AddressBook& book, const std::vector<Group>& groups,
           const std::unordered_map<IpAddress, GroupIndex>& group_of)
        : tree_(tree), book_(book), groups_(groups), group_of_(group_of) {}

    void look_at(const Name& zone, const Name& parent, const std::vector<Name>& servers) {
        const ZoneRange contents = tree_.at(zone.key());
        for (const Name& server : servers) {
            for (const IpAddress& address : book_.any(server)) {
                if (is_lame(contents, address)) {
                    found_.push_back({zone, parent, server, address});
                }
            }
        }
    }

    std::vector<Lame> finish() {
        std::ranges::sort(found_);
        const auto twice = std::ranges::unique(found_);
        found_.erase(twice.begin(), twice.end());
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
