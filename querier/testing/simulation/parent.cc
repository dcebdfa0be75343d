#include "querier/testing/simulation/parent.hh"

#include "core/wire/frame.hh"
#include "querier/process.hh"
#include "querier/testing/messages.hh"
#include "querier/testing/simulation/timeline.hh"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::querier::testing {
namespace {

constexpr Nanoseconds kProbeEvery = 300 * kMillisecond;
constexpr Nanoseconds kHandOutEvery = 50 * kMillisecond;

} // namespace

void SimulatedParent::play(const wire::Options& options, std::vector<Query> queries,
                           Nanoseconds ahead) {
    options_ = options;
    queries_ = std::move(queries);
    ahead_ = ahead;
}

void SimulatedParent::tell(wire::Frame frame) {
    if (!silent_ && !gone_) {
        to_read_.push_back(std::move(frame));
    }
}

void SimulatedParent::send(const wire::Frame& frame) {
    if (frame.has_hello()) {
        begin(frame.hello());
    } else if (frame.has_credit()) {
        credit_ += {.records = frame.credit().queries(), .bytes = frame.credit().bytes()};
        if (show_credit_) {
            timeline_.note("parent < credit for {} queries", frame.credit().queries());
        }
    } else if (frame.has_abort()) {
        timeline_.note("parent < abort: {}", frame.abort().because());
    } else if (frame.has_finished()) {
        report_ = frame.finished().reports(0);
    }
}

void SimulatedParent::begin(const wire::Hello& hello) {
    credit_ = {.records = hello.credit(), .bytes = hello.credit_bytes()};
    wire::Frame setup;
    setup.mutable_setup()->set_protocol(kProtocolVersion);
    setup.mutable_setup()->set_run(hello.run());
    *setup.mutable_setup()->mutable_options() = options_;
    tell(std::move(setup));
    wire::Frame start;
    start.mutable_start()->set_start_mono_ns(kStart);
    start.mutable_start()->set_start_real_ns(kRealStart);
    start.mutable_start()->set_trace_first_ns(kTraceFirst);
    tell(std::move(start));
    hand_out();
    probe();
}

void SimulatedParent::probe() {
    wire::Frame frame;
    frame.mutable_probe()->set_sent_mono_ns(timeline_.now());
    tell(std::move(frame));
    timeline_.in(kProbeEvery, [this] { probe(); });
}

/// What is due soon, as far as the querier has granted credit.
void SimulatedParent::hand_out() {
    wire::Frame frame;
    wire::Block& block = *frame.mutable_block();
    while (handed_ < queries_.size() && credit_.records > 0 && block.count() < kBlockRecords &&
           kStart + queries_[handed_].due <= timeline_.now() + ahead_) {
        const size_t before = block.records().size();
        queries_told_ += queries_[handed_].is_close() ? 0U : 1U;
        append_record(*block.mutable_records(), queries_[handed_++]);
        block.set_count(block.count() + 1);
        --credit_.records;
        credit_.bytes -= cost_of(block.records().size() - before).bytes;
    }
    const bool full = block.count() == kBlockRecords;
    if (block.count() > 0) {
        tell(std::move(frame));
    }
    if (handed_ == queries_.size() && !std::exchange(ended_, true)) {
        wire::Frame end;
        end.mutable_end()->set_queries(queries_told_);
        tell(std::move(end));
    }
    if (!ended_) {
        timeline_.in(full ? 0 : kHandOutEvery, [this] { hand_out(); });
    }
}

void SimulatedParent::abort(const std::string& because) {
    wire::Frame frame;
    frame.mutable_abort()->set_because(because);
    tell(std::move(frame));
}

std::optional<Bytes> SimulatedParent::receive() {
    if (to_read_.empty() && gone_) {
        return std::nullopt;
    }
    read_.clear();
    for (const wire::Frame& frame : std::exchange(to_read_, {})) {
        read_ += encode_frame(frame);
    }
    return bytes_of(read_);
}

} // namespace reprise::querier::testing
