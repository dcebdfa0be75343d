#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/volume/volume_rules.hh"

#include <vector>

namespace reprise::mutator {

void CollapseRule::apply(Batch& batch) {
    dropped_ += std::erase_if(batch.items, [this](const Item& item) {
        return !item.is_close() && selector_.takes(item) &&
               retransmits_.repeats(item.time, item.transport, item.source, item.message);
    });
}

RuleCounts CollapseRule::counts() const {
    return {{"seen", selector_.seen()},
            {"matched", selector_.matched()},
            {"changed", 0},
            {"dropped", dropped_}};
}

} // namespace reprise::mutator
