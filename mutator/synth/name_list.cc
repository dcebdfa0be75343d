#include "mutator/synth/name_list.hh"

#include "core/base/bytes.hh"
#include "core/base/error.hh"
#include "core/dns/name.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/capture/line_reader.hh"
#include "core/trace/reassembly/options.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::mutator {
namespace {

constexpr size_t kMostName = 253; ///< in wire form without the root label
constexpr size_t kMostText = 1UL << 30U;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && is_space(text.front())) {
        text.remove_prefix(1);
    }
    while (!text.empty() && is_space(text.back())) {
        text.remove_suffix(1);
    }
    return text;
}

bool is_name_byte(char c) { return c > ' ' && c < 0x7f && c != ',' && c != '\\' && c != '"'; }

std::string read_names(const std::string& path) {
    trace::ByteStream in(path);
    std::string text;
    for (Bytes block = in.next_block(); !block.empty(); block = in.next_block()) {
        if (text.size() + block.size() > kMostText) {
            throw UsageError(
                fmt::format("--names {} is larger than 1 GiB; give a shorter list", path));
        }
        text.append(reinterpret_cast<const char*>(block.data()), block.size());
    }
    if (!in.error().empty()) {
        throw UsageError(
            fmt::format("--names {} cannot be read: {}; give a whole file", path, in.error()));
    }
    return text;
}

} // namespace

bool NameList::add(std::string_view text) {
    Name name;
    if (!std::ranges::all_of(text, is_name_byte) || name.parse(text) != NameError::kNone ||
        name.labels().empty() || name.labels().size() > kMostName) {
        return false;
    }
    bytes_.append(name.labels().begin(), name.labels().end());
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    return true;
}

std::string_view NameList::wire(size_t number) const {
    const size_t begin = number == 0 ? 0 : ends_[number - 1];
    return std::string_view(bytes_).substr(begin, ends_[number] - begin);
}

std::uint64_t add_lines(std::string_view text, NameList& names) {
    std::uint64_t bad = 0;
    text = trace::without_byte_order_mark(text);
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty() || line.front() == '#') {
            continue;
        }
        const size_t comma = line.find(',');
        if (comma != std::string_view::npos) { // RANK,NAME
            line.remove_prefix(comma + 1);
        }
        bad += names.add(trimmed(line)) ? 0U : 1U;
    }
    return bad;
}

NameList load_names(const std::string& path) {
    NameList names;
    std::uint64_t bad = 0;
    try {
        bad = add_lines(read_names(path), names);
    } catch (const trace::TraceError& error) {
        throw UsageError(fmt::format("--names {}: {}", path, error.what()));
    }
    if (names.size() == 0) {
        throw UsageError(
            fmt::format("--names {} holds no name; give one name a line, or RANK,NAME", path));
    }
    if (bad != 0) {
        spdlog::warn("names={} used={} lines_without_a_name={}", path, names.size(), bad);
    }
    return names;
}

} // namespace reprise::mutator
