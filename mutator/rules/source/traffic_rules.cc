#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/source/traffic_kinds.hh"

#include <vector>

namespace reprise::mutator {

std::vector<RuleKind> traffic_rules() {
    return {transport_kind(), class_kind(), keep_kind(),
            drop_kind(),      remap_kind(), anonymise_kind()};
}

} // namespace reprise::mutator
