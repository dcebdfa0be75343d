// reprise-fuzz-inputs OUT FOLDER...: real traces and zones as inputs of the fuzz targets,
// OUT/TARGET/HASH. What cannot be read is passed over.
#include "core/base/error.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/source.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/forms/message_source.hh"
#include "core/trace/forms/query_encoder.hh"
#include "core/trace/reassembly/packet.hh"
#include "core/trace/testing/forms.hh"
#include "core/wire/frame.hh"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ios>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace reprise;        // NOLINT(google-build-using-namespace)
using namespace reprise::trace; // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;
using test::OwnQuery;

constexpr size_t kMost = 100;         // inputs of a file for a target
constexpr size_t kPart = 8U << 10U;   // bytes of a text
constexpr size_t kWhole = 64U << 10U; // bytes of a binary file
constexpr size_t kTogether = 6;       // packets, messages or records of an input

std::string little(std::uint16_t value) {
    return {static_cast<char>(value & 0xffU), static_cast<char>(value >> 8U)};
}

std::string big(std::uint16_t value) {
    return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

std::string text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint16_t size16(Bytes bytes) {
    return static_cast<std::uint16_t>(std::min<size_t>(bytes.size(), 65'535));
}

/// Writes what a file yields; no more than kMost for a target.
class Inputs {
public:
    explicit Inputs(fs::path folder) : folder_(std::move(folder)) {}

    void begin_file() { written_.clear(); }

    [[nodiscard]] bool full(const std::string& target) { return written_[target] >= kMost; }

    void add(const std::string& target, const std::string& input) {
        if (full(target) || input.empty()) {
            return;
        }
        ++written_[target];
        ++sum_[target];
        fs::create_directories(folder_ / target);
        const auto name = fmt::format("{:016x}", XXH64(input.data(), input.size(), 0));
        std::ofstream(folder_ / target / name, std::ios::binary) << input;
    }

    [[nodiscard]] const std::map<std::string, size_t>& sums() const { return sum_; }

private:
    fs::path folder_;
    std::map<std::string, size_t> written_; ///< of this file
    std::map<std::string, size_t> sum_;
};

// --- packets
// --------------------------------------------------------------------------------------

/// As the packet targets read them: link type, then each with its size and a millisecond.
void add_packets(TraceSource& source, Inputs& inputs) {
    std::string packets;
    std::string frames;
    size_t together = 0;
    Query query;
    for (Packet packet; source.next(packet, query) && !inputs.full("reader_packets");) {
        if (packet.link == LinkType::kUnknown) {
            continue;
        }
        const char link = static_cast<char>(packet.link);
        const std::uint16_t size = size16(packet.bytes);
        const std::string bytes = text(packet.bytes.first(size));
        if (together == kTogether || (!packets.empty() && packets.front() != link)) {
            inputs.add("reader_packets", packets);
            inputs.add("reader_unusual_replies", frames);
            packets.clear();
            frames.clear();
            together = 0;
        }
        packets += (packets.empty() ? std::string(1, link) : "") + little(size) + little(1) + bytes;
        if (packet.link == LinkType::kEthernet) {
            frames += big(size) + bytes;
        }
        const std::string alone = std::string(1, '\0') + text(network_layer(packet));
        inputs.add("reader_rewrite", alone);
        inputs.add("reader_segment", alone);
        ++together;
    }
    inputs.add("reader_packets", packets);
    inputs.add("reader_unusual_replies", frames);
}

// --- messages and records
// -------------------------------------------------------------------------

std::string block_of(std::span<const OwnQuery> queries) {
    wire::Block block;
    block.set_count(static_cast<std::uint32_t>(queries.size()));
    for (const OwnQuery& query : queries) {
        append_record(*block.mutable_records(), query.view());
    }
    return block.SerializeAsString();
}

void add_records(std::span<const OwnQuery> queries, Inputs& inputs) {
    wire::Frame frame;
    frame.mutable_block()->ParseFromString(block_of(queries));
    std::string replies(1, '\x40');
    std::string rows;
    for (const OwnQuery& query : queries) {
        replies += big(size16(query.message)) + text(query.message);
        append_text_row(rows, query.view());
    }
    inputs.add("reader_record", frame.block().records());
    inputs.add("reader_block", frame.SerializeAsString());
    inputs.add("reader_frame", '\x40' + encode_frame(frame));
    inputs.add("reader_stream", std::string(1, '\0') + frame.block().SerializeAsString());
    inputs.add("reader_text", '\x01' + rows);
    inputs.add("reader_replies", replies);
}

void add_messages(std::span<const OwnQuery> queries, Inputs& inputs) {
    for (const OwnQuery& query : queries) {
        inputs.add("reader_dns", text(query.message));
        inputs.add("reader_editor", "\x7f\x01" + text(query.message));
    }
    while (!queries.empty() && !inputs.full("reader_record")) {
        const auto some = queries.first(std::min(kTogether, queries.size()));
        queries = queries.subspan(some.size());
        add_records(some, inputs);
    }
}

// --- files
// ----------------------------------------------------------------------------------------

/// Cut at the ends of lines.
void add_lines(const std::string& target, std::string_view lines, Inputs& inputs) {
    while (!lines.empty() && !inputs.full(target)) {
        const size_t end = lines.rfind('\n', kPart);
        const size_t size = lines.size() <= kPart || end == std::string_view::npos
                                ? std::min(kPart, lines.size())
                                : end + 1;
        inputs.add(target, std::string(lines.substr(0, size)));
        lines.remove_prefix(size);
    }
}

/// The target that reads whole files of a binary form; empty where the file is of no such form.
std::string target_of(Bytes head) {
    if (kDnstapForm.fits(head)) {
        return "reader_dnstap";
    }
    if (kCdnsForm.fits(head)) {
        return "reader_cdns";
    }
    const std::uint32_t magic = Cursor(head).u32be();
    if (magic == 0x0a0d0d0aU) {
        return "reader_pcapng";
    }
    const auto is = [magic](std::uint32_t known) {
        return magic == known || magic == __builtin_bswap32(known);
    };
    return is(0xa1b2c3d4U) || is(0xa1b23c4dU) ? "reader_pcap" : "";
}

void add_file(const fs::path& path, Inputs& inputs) {
    inputs.begin_file();
    ByteStream stream(path);
    const Bytes head = stream.peek(1U << 20U);
    const std::string target = target_of(head);
    if (!target.empty()) {
        inputs.add(target, text(head.first(std::min(kWhole, head.size()))));
        const auto source = open_trace(path);
        if (source->capture()) {
            add_packets(*source, inputs);
        }
        add_messages(test::read_file(path).queries, inputs);
    } else if (path.filename().string().find(".zon") != std::string::npos) {
        add_lines("reader_zone", text(head), inputs);
    } else if (path.filename().string().find(".txt") != std::string::npos) {
        add_lines("reader_names", text(head), inputs);
    }
}

void add_folder(const fs::path& folder, Inputs& inputs) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        try {
            if (entry.is_regular_file()) {
                add_file(entry.path(), inputs);
            }
        } catch (const Error& error) {
            fmt::print("passed over: {}\n", error.what());
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 2) {
        fmt::print(stderr, "usage: reprise-fuzz-inputs OUT FOLDER...\n");
        return 2;
    }
    try {
        Inputs inputs(words.front());
        for (const std::string& folder : std::span(words).subspan(1)) {
            add_folder(folder, inputs);
        }
        for (const auto& [target, count] : inputs.sums()) {
            fmt::print("{}: {} inputs\n", target, count);
        }
    } catch (const std::exception& error) {
        fmt::print(stderr, "reprise-fuzz-inputs: error: {}; check the folders\n", error.what());
        return 1;
    }
    return 0;
}
