#include "core/base/error.hh"
#include "core/dns/name.hh"
#include "core/trace/capture/byte_stream.hh"
#include "core/trace/reassembly/options.hh"
#include "mutator/synth/names.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <idn2.h>
#include <istream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace reprise::mutator {

namespace {

constexpr size_t kMostText = 1UL << 30U;

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

bool is_name_byte(char c) { return c > ' ' && c < 0x7f && c != ',' && c != '"'; }

bool is_rank(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

bool NameList::add(std::string_view text) {
    Name name;
    if (!std::ranges::all_of(text, is_name_byte) || !name.parse(text).empty()) {
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

bool add_line(std::string_view line, NameList& names) {
    line = trimmed(line);
    if (line.empty() || line.front() == '#') {
        return true;
    }
    const size_t comma = line.find(',');
    if (comma != std::string_view::npos && is_rank(trimmed(line.substr(0, comma)))) {
        line.remove_prefix(comma + 1); // RANK,NAME
    }
    return names.add(trimmed(line));
}

NameList load_names(const std::string& path) {
    NameList names;
    std::uint64_t bad = 0;
    size_t size = 0;
    try {
        trace::ByteStream stream(path);
        trace::LineReader lines(stream);
        for (std::string_view line; lines.next(line);) {
            size += line.size() + 1;
            if (size > kMostText) {
                throw UsageError(
                    fmt::format("--names {} is larger than 1 GiB; give a shorter list", path));
            }
            bad += add_line(line, names) ? 0U : 1U;
        }
        if (!lines.trouble().empty()) {
            throw UsageError(fmt::format("--names {} cannot be read: {}; give a whole file", path,
                                         lines.trouble()));
        }
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

namespace {

/// The order of popularity is a plausible one, not a measurement.
constexpr std::array<std::string_view, 48> kPopular{
    "com", "net", "arpa", "org", "ru", "de",   "cn",  "uk", "br", "jp", "info", "nl",
    "it",  "fr",  "in",   "pl",  "au", "eu",   "ca",  "io", "tv", "us", "edu",  "co",
    "gov", "biz", "me",   "ir",  "ua", "kr",   "tw",  "cz", "ch", "se", "es",   "at",
    "be",  "vn",  "id",   "tr",  "mx", "asia", "xyz", "cc", "ro", "gr", "dk",   "hu"};

bool is_comment(std::string_view line) { return line.starts_with("//") || line.starts_with('#'); }

bool is_host_label(std::string_view label) {
    return !label.empty() && std::ranges::all_of(label, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
}

/// Last label of a rule ("*.ck" and "!www.ck" give "ck"), or nothing.
std::optional<std::string> top_label(std::string_view rule) {
    while (rule.ends_with('.')) {
        rule.remove_suffix(1);
    }
    rule.remove_prefix(rule.rfind('.') + 1);
    auto label = to_a_label(std::string(rule));
    return label && is_host_label(*label) ? label : std::nullopt;
}

} // namespace

std::optional<std::string> to_a_label(const std::string& label) {
    char* out = nullptr;
    if (idn2_to_ascii_8z(label.c_str(), &out, IDN2_NONTRANSITIONAL) != IDN2_OK) {
        return std::nullopt;
    }
    const std::unique_ptr<char, decltype(&idn2_free)> owner(out, &idn2_free);
    return *out == '\0' ? std::nullopt : std::optional<std::string>(out);
}

std::vector<std::string> read_tlds(std::istream& in) {
    std::vector<std::string> tlds;
    std::unordered_set<std::string> seen;
    for (std::string line; std::getline(in, line);) {
        if (is_comment(line)) {
            if (line.find("END ICANN DOMAINS") != std::string::npos) {
                break;
            }
            continue;
        }
        const std::string_view text = trimmed(line);
        const auto label = top_label(text.substr(0, text.find_first_of(kBlanks)));
        if (label && seen.insert(*label).second) {
            tlds.push_back(*label);
        }
    }
    auto front = tlds.begin();
    for (const auto& popular : kPopular) {
        if (const auto at = std::find(front, tlds.end(), popular); at != tlds.end()) {
            std::rotate(front++, at, at + 1);
        }
    }
    return tlds;
}

std::vector<std::string> load_tlds(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        throw UsageError(fmt::format("cannot read {}: {}; install publicsuffix or give --tld-file",
                                     path, std::strerror(errno)));
    }
    auto tlds = read_tlds(file);
    if (tlds.empty()) {
        throw UsageError(fmt::format(
            "{} names no top-level domain; give --tld-file a public suffix list", path));
    }
    return tlds;
}

} // namespace reprise::mutator
