#include "mutator/stages.hh"

#include "mutator/batch.hh"
#include "mutator/parcel.hh"
#include "mutator/query_encoder.hh"
#include "mutator/rules/rule.hh"

#include <memory>
#include <utility>
#include <vector>

namespace reprise::mutator {

SurveyStage::SurveyStage(std::vector<Rule*> rules) : rules_(std::move(rules)) {}

void SurveyStage::run(Parcel& parcel) {
    for (const Item& item : parcel.batch.items) {
        for (Rule* rule : rules_) {
            rule->survey(item);
        }
    }
}

void RuleStage::run(Parcel& parcel) {
    if (!parcel.batch.items.empty()) {
        rule_->apply(parcel.batch);
    }
    if (!parcel.last) {
        return;
    }
    Batch rest;
    rule_->finish(rest);
    for (Item item : rest.items) {
        item.message = parcel.batch.copy(item.message);
        parcel.batch.items.push_back(item);
    }
}

EncodeStage::EncodeStage(std::unique_ptr<QueryEncoder> encoder, OutputCounts& counts)
    : encoder_(std::move(encoder)), counts_(&counts) {}

void EncodeStage::run(Parcel& parcel) {
    if (!std::exchange(begun_, true)) {
        encoder_->begin(parcel.bytes);
    }
    for (const Item& item : parcel.batch.items) {
        encoder_->encode(query_of(item, counts_->queries), parcel.bytes);
        ++(item.is_close() ? counts_->closes : counts_->queries);
    }
    if (parcel.flush) {
        encoder_->flush(parcel.bytes);
    }
    if (parcel.last) {
        encoder_->finish(parcel.bytes);
    }
}

} // namespace reprise::mutator
