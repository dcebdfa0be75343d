#pragma once
// The stages of a mutation behind the inputs.

#include "core/base/clock.hh"
#include "core/rules/engine/rule.hh"
#include "core/trace/forms/query_encoder.hh"
#include "mutator/output/output_file.hh"
#include "mutator/pipeline/inputs.hh"
#include "mutator/pipeline/pipeline.hh"

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace reprise::mutator {

struct OutputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;       ///< of the trace, as far as they are written
    std::uint64_t out_of_order = 0; ///< queries with an earlier time than the one before them
    trace::EncoderLosses losses;
};

/// Shows the rules every query and changes nothing.
class SurveyStage final : public Stage {
public:
    explicit SurveyStage(std::vector<rules::Rule*> rules);
    void run(BatchJob& job) override;

private:
    std::vector<rules::Rule*> rules_;
};

/// Applies one rule.
class RuleStage final : public Stage {
public:
    explicit RuleStage(rules::Rule& rule) : rule_(&rule) {}

    void run(BatchJob& job) override;

    [[nodiscard]] bool has_more() const override { return rule_->has_more(); }

    void run_more(BatchJob& job) override;

private:
    void end_piece(BatchJob& job);

    rules::Rule* rule_;
    bool last_ = false;  ///< the job at work was
    bool flush_ = false; ///< the same
};

/// Makes the output's bytes. Throws Error for a connection's number that no reader would take back.
class EncodeStage final : public Stage {
public:
    EncodeStage(std::unique_ptr<trace::QueryEncoder> encoder, OutputCounts& counts);
    void run(BatchJob& job) override;

private:
    void count(const Query& query);

    std::unique_ptr<trace::QueryEncoder> encoder_;
    OutputCounts* counts_;
    std::uint64_t closes_ = 0;                                   ///< that the encoder was given
    Nanoseconds last_ = std::numeric_limits<Nanoseconds>::min(); ///< time of the query before
    bool begun_ = false;
};

class WriteStage final : public Stage {
public:
    explicit WriteStage(OutputFile& output) : output_(&output) {}

    void run(BatchJob& job) override { output_->write(job.bytes); }

private:
    OutputFile* output_;
};

} // namespace reprise::mutator
