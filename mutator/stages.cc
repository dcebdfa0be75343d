#include "mutator/stages.hh"

#include "core/error.hh"
#include "core/trace/message_source.hh"
#include "mutator/batch.hh"
#include "mutator/parcel.hh"
#include "mutator/query_encoder.hh"
#include "mutator/rules/rule.hh"

#include <fmt/format.h>

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
    last_ = parcel.last;
    flush_ = parcel.flush;
    end_piece(parcel);
}

void RuleStage::run_more(Parcel& parcel) {
    rule_->apply_more(parcel.batch);
    parcel.flush = flush_;
    end_piece(parcel);
}

/// The last piece of the last parcel is the last one behind this stage.
void RuleStage::end_piece(Parcel& parcel) {
    parcel.last = last_ && !has_more();
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

void EncodeStage::count(const Item& item) {
    if (item.connection > trace::kMaxConnection) {
        throw Error(fmt::format("connection {} is beyond {}, the greatest number that a trace can "
                                "have; number the inputs' connections from 1",
                                item.connection, trace::kMaxConnection));
    }
    if (item.is_close()) {
        ++closes_;
        return;
    }
    ++counts_->queries;
    counts_->out_of_order += item.time < last_ ? 1U : 0U;
    last_ = item.time;
}

void EncodeStage::run(Parcel& parcel) {
    if (!std::exchange(begun_, true)) {
        encoder_->begin(parcel.bytes);
    }
    for (const Item& item : parcel.batch.items) {
        encoder_->encode(query_of(item, counts_->queries), parcel.bytes);
        count(item);
    }
    counts_->losses = encoder_->losses();
    counts_->closes = closes_ - counts_->losses.closes_left_out;
    if (parcel.flush) {
        encoder_->flush(parcel.bytes);
    }
    if (parcel.last) {
        encoder_->finish(parcel.bytes);
    }
}

} // namespace reprise::mutator
