#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/log.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/forms/pcap/pcap_encoder.hh"
#include "core/trace/forms/query_encoder.hh"
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
#include <memory>
#include <string>

namespace reprise::mutator {
namespace {

constexpr size_t kFullBuffer = 256UL << 10U;

/// Bytes at the packet's end that were not captured.
std::uint32_t missing_of(const trace::Packet& packet) {
    const auto captured = static_cast<std::uint32_t>(packet.bytes.size());
    return packet.wire_length > captured ? packet.wire_length - captured : 0;
}

int run_reduce(const TraceCommand& options) {
    demand_trace(options.trace);
    const auto source = trace::open_trace(options.trace);
    if (!source->capture()) {
        throw UsageError(fmt::format("{} is {}, not a capture; give it to mutate as it is",
                                     options.trace, source->description()));
    }
    const trace::DnsPorts ports(options.ports);
    trace::Tally tally;
    OutputFile file(options.output);
    std::string out; // not written yet
    const auto encoder = trace::make_pcap_encoder();
    encoder->begin(out);
    Progress progress("reduce", check_interrupt);
    std::uint64_t packets = 0;
    std::uint64_t queries = 0;
    std::uint64_t responses = 0;
    std::uint64_t kept = 0; // segments and fragments
    Query query;
    for (trace::Packet packet; source->next(packet, query);) {
        const trace::Sorted sorted = trace::sort_packet(packet, ports, tally, query);
        if (sorted == trace::Sorted::kAssembler) {
            ++kept;
            trace::append_packet(out, packet.time, trace::network_layer(packet),
                                 missing_of(packet));
        } else if (sorted == trace::Sorted::kMessage && query.is_response()) {
            ++responses;
        } else if (sorted == trace::Sorted::kMessage) {
            ++queries;
            encoder->encode(query, out); // made anew, so that IP options and padding go too
        }
        if (out.size() >= kFullBuffer) {
            file.write(out);
            out.clear();
        }
        progress.tick(++packets);
    }
    check_interrupt();
    file.write(out);
    file.finish();
    spdlog::info("work=reduce packets={} udp_queries={} segments_and_fragments={} "
                 "udp_responses_left_out={} elapsed_s={:.2f}",
                 packets, queries, kept, responses, progress.elapsed_s());
    // As far as a packet alone tells.
    for (const std::string& loss : trace::losses(tally.named(), queries + responses + kept)) {
        spdlog::warn("work=reduce lost={}", log_value(loss));
    }
    if (const std::string left_out = trace::left_out(tally.named()); !left_out.empty()) {
        spdlog::warn("work=reduce left_out={}", log_value(left_out));
    }
    return status_of(options.trace, source->trouble());
}

} // namespace

void add_reduce(Command& app, int& status) {
    const auto files = std::make_shared<TraceCommand>();
    Command command = app.add_subcommand(
        "reduce", "Leaves of a capture only what a replay needs: pcap, raw IP, nanoseconds");
    add_files(command, *files, "File to write (.pcap), - for standard output");
    command.footer(
        "Keeps the queries over UDP, and the TCP segments and fragments that make sense only with "
        "others, of which\nsome may lie in the next file: mutate makes the same of reduced "
        "captures as of the captures themselves.\n\n"
        "Example: reprise-mutator reduce hour-13.pcap.xz -o hour-13.pcap");
    command.callback([files, &status] { status = run_reduce(*files); });
}

} // namespace reprise::mutator
