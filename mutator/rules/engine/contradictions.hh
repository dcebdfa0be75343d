#pragma once
#include "mutator/rules/engine/arguments.hh"

#include <vector>

namespace reprise::mutator {

/// Throws RuleError, naming both places, where one rule leaves another without any effect: both
/// for all queries and setting the same thing, or keeping and dropping the same queries.
void refuse_contradictions(const std::vector<Arguments>& rules);

} // namespace reprise::mutator
