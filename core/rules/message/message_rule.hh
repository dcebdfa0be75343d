#pragma once
// What the rules on messages share: what is counted, what happens to the malformed.

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_layout.hh"

#include <cstdint>

namespace reprise::rules {

/// Counts besides the usual ones, where not zero: "malformed", "no_question", "too_long" and
/// "compressed" are queries kept as they were (Edit says why); "dropped" of "malformed" went with
/// RuleSettings::drop_malformed; "signed" were changed though their TSIG or SIG(0) no longer holds.
class MessageRule : public Rule {
protected:
    /// Takes the selector's keys from `arguments`.
    MessageRule(Arguments& arguments, const RuleSettings& settings);

    /// Edits the message of a query that the selector took. Queries come in order.
    virtual Edit edit(Query& query, const MessageLayout& layout, Batch& batch) = 0;

private:
    Outcome change(Query& query, Batch& batch) final;

    bool drop_malformed_;
    std::uint64_t& malformed_ = rare_count("malformed");
    std::uint64_t& no_question_ = rare_count("no_question");
    std::uint64_t& too_long_ = rare_count("too_long");
    std::uint64_t& compressed_ = rare_count("compressed");
    std::uint64_t& signed_ = rare_count("signed");
    std::uint64_t& dropped_ = rare_count("dropped");
};

} // namespace reprise::rules
