#include "mutator/pipeline/stages.hh"

#include "core/base/error.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/wire/query.hh"
#include "mutator/pipeline/inputs.hh"

#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

namespace reprise::mutator {

SurveyStage::SurveyStage(std::vector<rules::Rule*> rules) : rules_(std::move(rules)) {}

void SurveyStage::run(BatchJob& job) {
    for (const Query& query : job.batch.queries) {
        for (rules::Rule* rule : rules_) {
            rule->survey(query);
        }
    }
}

void RuleStage::run(BatchJob& job) {
    if (!job.batch.queries.empty()) {
        rule_->apply(job.batch);
    }
    last_ = job.last;
    flush_ = job.flush;
    end_piece(job);
}

void RuleStage::run_more(BatchJob& job) {
    rule_->apply_more(job.batch);
    job.flush = flush_;
    end_piece(job);
}

/// The last piece of the last job is the last one behind this stage.
void RuleStage::end_piece(BatchJob& job) {
    job.last = last_ && !has_more();
    if (job.last) {
        rule_->finish(job.batch);
    }
}

EncodeStage::EncodeStage(std::unique_ptr<trace::QueryEncoder> encoder, OutputCounts& counts)
    : encoder_(std::move(encoder)), counts_(&counts) {}

void EncodeStage::count(const Query& query) {
    if (query.connection > trace::kMaxConnection) {
        throw Error(fmt::format("connection {} is beyond {}, the greatest number that a trace can "
                                "have; number the inputs' connections from 1",
                                query.connection, trace::kMaxConnection));
    }
    if (query.is_close()) {
        ++closes_;
        return;
    }
    ++counts_->queries;
    counts_->out_of_order += query.time < last_ ? 1U : 0U;
    last_ = query.time;
}

void EncodeStage::run(BatchJob& job) {
    if (!std::exchange(begun_, true)) {
        encoder_->begin(job.bytes);
    }
    for (Query& query : job.batch.queries) {
        query.sequence = counts_->queries;
        encoder_->encode(query, job.bytes);
        count(query);
    }
    counts_->losses = encoder_->losses();
    counts_->closes = closes_ - counts_->losses.closes_left_out;
    if (job.flush) {
        encoder_->flush(job.bytes);
    }
    if (job.last) {
        encoder_->finish(job.bytes);
    }
}

} // namespace reprise::mutator
