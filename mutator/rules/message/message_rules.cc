#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/message/message_rule.hh"

#include <vector>

namespace reprise::mutator {

std::vector<RuleKind> message_rules() {
    return {edns_kind(), header_kind(), name_kind(), type_kind()};
}

} // namespace reprise::mutator
