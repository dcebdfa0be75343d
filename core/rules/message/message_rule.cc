#include "core/rules/message/message_rule.hh"

#include "core/rules/engine/arguments.hh"
#include "core/rules/engine/catalog.hh"
#include "core/rules/engine/rule.hh"
#include "core/rules/engine/selector.hh"
#include "core/rules/message/message_editor.hh"
#include "core/rules/message/message_layout.hh"
#include "core/wire/query.hh"

namespace reprise::rules {

MessageRule::MessageRule(Arguments& arguments, const RuleSettings& settings)
    : Rule(Selector(arguments, settings.seed, Closes::kNone)),
      drop_malformed_(settings.drop_malformed) {}

Rule::Outcome MessageRule::change(Query& query, Batch& batch) {
    const MessageLayout layout = parse_layout(query.message);
    switch (edit(query, layout, batch)) {
    case Edit::kChanged:
        signed_ += layout.is_signed ? 1U : 0U;
        return Outcome::kChanged;
    case Edit::kMalformed:
        ++malformed_;
        dropped_ += drop_malformed_ ? 1U : 0U;
        return drop_malformed_ ? Outcome::kDropped : Outcome::kSame;
    case Edit::kNoQuestion:
        ++no_question_;
        break;
    case Edit::kTooLong:
        ++too_long_;
        break;
    case Edit::kCompressed:
        ++compressed_;
        break;
    case Edit::kUnchanged:
        break;
    }
    return Outcome::kSame;
}

} // namespace reprise::rules
