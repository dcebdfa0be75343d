#include "mutator/rules/catalogue.hh"

#include <vector>

namespace reprise::mutator {

std::vector<RuleKind> time_rules() { return {}; }

} // namespace reprise::mutator
