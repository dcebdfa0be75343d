#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/base/progress.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/losses.hh"
#include "core/trace/reassembly/fragments.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/reassembly/tally.hh"
#include "core/wire/query.hh"
#include "mutator/commands.hh"
#include "mutator/output/output_file.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise::mutator {
namespace {

constexpr size_t kFullBuffer = 256UL << 10U;

struct Kept {
    std::uint64_t queries = 0; ///< whole ones, over UDP
    std::uint64_t packets = 0; ///< segments and fragments
    std::uint64_t responses = 0;
};

/// Bytes at the packet's end that were not captured.
std::uint32_t missing_of(const trace::Packet& packet) {
    const auto captured = static_cast<std::uint32_t>(packet.bytes.size());
    return packet.wire_length > captured ? packet.wire_length - captured : 0;
}

class Reducer {
public:
    explicit Reducer(const ReduceOptions& options) : ports_(options.ports), file_(options.output) {
        encoder_.begin(out_);
    }

    void add(const trace::Packet& packet) {
        Query query;
        switch (trace::sort_packet(packet, ports_, tally_, query)) {
        case trace::Sorted::kMessage:
            add_message(query);
            break;
        case trace::Sorted::kAssembler:
            ++kept_.packets;
            trace::append_packet(out_, packet.time, trace::network_layer(packet),
                                 missing_of(packet));
            break;
        case trace::Sorted::kNothing:
            break;
        }
        if (out_.size() >= kFullBuffer) {
            file_.write(out_);
            out_.clear();
        }
    }

    void finish() {
        file_.write(out_);
        file_.finish();
    }

    [[nodiscard]] const Kept& kept() const { return kept_; }

    /// As far as a packet alone tells.
    [[nodiscard]] std::vector<std::string> losses() const {
        return trace::losses(tally_.named(), kept_.queries + kept_.responses + kept_.packets);
    }

    [[nodiscard]] std::string left_out() const { return trace::left_out(tally_.named()); }

private:
    /// Made anew, so that IP options and padding go too.
    void add_message(const Query& query) {
        if (query.is_response()) {
            ++kept_.responses;
            return;
        }
        ++kept_.queries;
        encoder_.encode(query, out_);
    }

    trace::DnsPorts ports_;
    trace::Tally tally_;
    OutputFile file_;
    std::string out_; ///< not written yet
    trace::PcapEncoder encoder_;
    Kept kept_;
};

} // namespace

int run_reduce(const ReduceOptions& options) {
    const auto opened = trace::open_trace(options.trace, {.ports = options.ports});
    if (!opened.packets) {
        throw UsageError(fmt::format("{} is {}, not a capture; give it to mutate as it is",
                                     options.trace, opened.messages->description()));
    }
    const auto& source = opened.packets;
    Reducer reducer(options);
    Progress progress("reduce", check_interrupt);
    std::uint64_t packets = 0;
    for (trace::Packet packet; source->next(packet);) {
        reducer.add(packet);
        progress.tick(++packets, source->share_read());
    }
    check_interrupt();
    reducer.finish();
    const Kept& kept = reducer.kept();
    spdlog::info("work=reduce packets={} udp_queries={} segments_and_fragments={} "
                 "udp_responses_left_out={} elapsed_s={:.2f}",
                 packets, kept.queries, kept.packets, kept.responses, progress.elapsed_s());
    for (const std::string& loss : reducer.losses()) {
        spdlog::warn("work=reduce lost={}", log_value(loss));
    }
    if (const std::string left_out = reducer.left_out(); !left_out.empty()) {
        spdlog::warn("work=reduce left_out={}", log_value(left_out));
    }
    return status_of(options.trace, source->trouble());
}

} // namespace reprise::mutator
