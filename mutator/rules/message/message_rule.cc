#include "mutator/rules/message/message_rule.hh"

#include "mutator/rules/engine/arguments.hh"
#include "mutator/rules/engine/catalogue.hh"
#include "mutator/rules/engine/rule.hh"
#include "mutator/rules/message/message_editor.hh"
#include "mutator/rules/message/message_layout.hh"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::mutator {

MessageRule::MessageRule(Arguments& arguments, const RuleSettings& settings)
    : selector_(arguments, settings.seed), drop_malformed_(settings.drop_malformed) {}

/// Whether the item stays in the batch.
bool MessageRule::keep(Item& item, Batch& batch) {
    if (item.is_close() || !selector_.takes(item)) {
        return true;
    }
    const MessageLayout layout = parse_layout(item.message);
    const Edit done = edit(item, layout, batch);
    ++edits_[static_cast<size_t>(done)];
    if (done == Edit::kChanged && layout.is_signed) {
        ++signed_;
    }
    if (done == Edit::kMalformed && drop_malformed_) {
        ++dropped_;
        return false;
    }
    return true;
}

void MessageRule::apply(Batch& batch) {
    size_t kept = 0;
    for (size_t i = 0; i < batch.items.size(); ++i) {
        if (keep(batch.items[i], batch)) {
            if (kept != i) {
                batch.items[kept] = batch.items[i];
            }
            ++kept;
        }
    }
    batch.items.resize(kept);
}

RuleCounts MessageRule::counts() const {
    RuleCounts counts{{"seen", selector_.seen()},
                      {"matched", selector_.matched()},
                      {"changed", edits_[static_cast<size_t>(Edit::kChanged)]}};
    const auto add = [&](const char* name, std::uint64_t count) {
        if (count != 0) {
            counts.emplace(name, count);
        }
    };
    add("malformed", edits_[static_cast<size_t>(Edit::kMalformed)]);
    add("no_question", edits_[static_cast<size_t>(Edit::kNoQuestion)]);
    add("too_long", edits_[static_cast<size_t>(Edit::kTooLong)]);
    add("compressed", edits_[static_cast<size_t>(Edit::kCompressed)]);
    add("signed", signed_);
    add("dropped", dropped_);
    return counts;
}

std::vector<RuleKind> message_rules() {
    return {edns_kind(), header_kind(), name_kind(), type_kind()};
}

} // namespace reprise::mutator
