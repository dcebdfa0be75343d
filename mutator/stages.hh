#pragma once
// The stages of a mutation behind the inputs.

#include "mutator/output_file.hh"
#include "mutator/parcel.hh"
#include "mutator/pipeline.hh"
#include "mutator/query_encoder.hh"
#include "mutator/rules/rule.hh"

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::mutator {

struct OutputCounts {
    std::uint64_t queries = 0;
    std::uint64_t closes = 0;
};

/// Shows the rules every query and changes nothing.
class SurveyStage final : public Stage {
public:
    explicit SurveyStage(std::vector<Rule*> rules);
    void run(Parcel& parcel) override;

private:
    std::vector<Rule*> rules_;
};

/// Applies one rule.
class RuleStage final : public Stage {
public:
    explicit RuleStage(Rule& rule) : rule_(&rule) {}

    void run(Parcel& parcel) override;

private:
    Rule* rule_;
};

/// Makes the output's bytes.
class EncodeStage final : public Stage {
public:
    EncodeStage(std::unique_ptr<QueryEncoder> encoder, OutputCounts& counts);
    void run(Parcel& parcel) override;

private:
    std::unique_ptr<QueryEncoder> encoder_;
    OutputCounts* counts_;
    bool begun_ = false;
};

class WriteStage final : public Stage {
public:
    explicit WriteStage(OutputFile& output) : output_(&output) {}

    void run(Parcel& parcel) override { output_->write(parcel.bytes); }

private:
    OutputFile* output_;
};

} // namespace reprise::mutator
