#include "mutator/rules/catalogue.hh"

#include <vector>

namespace reprise::mutator {

std::vector<RuleKind> traffic_rules() { return {}; }

} // namespace reprise::mutator
