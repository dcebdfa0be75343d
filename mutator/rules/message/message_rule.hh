#pragma once
// What the rules on messages share: which queries, what is counted, what happens to the malformed.

#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/engine/selector.hh"
#include "mutator/rules/message/message_editor.hh"
#include "mutator/rules/message/message_layout.hh"

#include <array>
#include <cstddef>
#include <cstdint>

namespace reprise::mutator {

/// Counts besides the usual ones, where not zero: "malformed", "no_question", "too_long" and
/// "compressed" are queries kept as they were (Edit says why); "dropped" of "malformed" went with
/// RuleSettings::drop_malformed; "signed" were changed though their TSIG or SIG(0) no longer holds.
class MessageRule : public Rule {
public:
    void apply(Batch& batch) final;
    [[nodiscard]] RuleCounts counts() const final;

protected:
    /// Takes the selector's keys from `arguments`.
    MessageRule(Arguments& arguments, const RuleSettings& settings);

    /// Edits the message of a query that the selector took. Queries come in order.
    virtual Edit edit(Item& item, const MessageLayout& layout, Batch& batch) = 0;

private:
    bool keep(Item& item, Batch& batch);

    Selector selector_;
    bool drop_malformed_;
    std::array<std::uint64_t, 6> edits_{}; ///< by Edit
    std::uint64_t signed_ = 0;
    std::uint64_t dropped_ = 0;
};

/// The kinds, one file each.
RuleKind edns_kind();
RuleKind header_kind();
RuleKind name_kind();
RuleKind type_kind();

} // namespace reprise::mutator
