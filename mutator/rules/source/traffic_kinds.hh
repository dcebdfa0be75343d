#pragma once
// The kinds of traffic rules, one file each, and what they share.

#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"

#include <cstddef>
#include <cstdint>

namespace reprise::mutator {

RuleKind transport_kind(); ///< transport_rule.cc
RuleKind class_kind();     ///< class_rule.cc
RuleKind anonymise_kind(); ///< anonymise_rule.cc
RuleKind remap_kind();     ///< remap_rule.cc
RuleKind keep_kind();      ///< source_rules.cc
RuleKind drop_kind();      ///< source_rules.cc

/// The counts that every rule has.
inline RuleCounts basic_counts(const Selector& selector, std::uint64_t changed) {
    return {{"seen", selector.seen()}, {"matched", selector.matched()}, {"changed", changed}};
}

/// Keeps the items for which `keep(item)`, asked in order, is true; it may change them.
template <typename Keep> void retain(Batch& batch, Keep keep) {
    size_t kept = 0;
    for (Item& item : batch.items) {
        if (keep(item)) {
            batch.items[kept++] = item;
        }
    }
    batch.items.resize(kept);
}

} // namespace reprise::mutator
