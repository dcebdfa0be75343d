#include "sampler/process_tree.hh"

#include "core/base/numbers.hh"
#include "sampler/host_counters.hh"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace reprise::sampler {

namespace {

namespace fs = std::filesystem;

constexpr int kStatFields = 22; // of /proc/PID/stat behind the name, up to rss

std::vector<std::int64_t> numbers(std::string_view text) {
    std::vector<std::int64_t> found;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end && found.size() < kStatFields) {
        std::int64_t value = 0;
        const auto parsed = std::from_chars(at, end, value);
        found.push_back(value);
        at = parsed.ptr;
        while (at < end && *at != ' ') {
            ++at;
        }
        while (at < end && *at == ' ') {
            ++at;
        }
    }
    return found;
}

/// The folder's size is the number of descriptors since Linux 6.2; before it is 0 and they are
/// counted.
std::uint64_t count_descriptors(Pid pid) {
    const std::string folder = fmt::format("/proc/{}/fd", pid);
    struct stat about{};
    if (::stat(folder.c_str(), &about) == 0 && about.st_size > 0) {
        return static_cast<std::uint64_t>(about.st_size);
    }
    std::error_code error;
    std::uint64_t count = 0;
    for (fs::directory_iterator one(folder, error); !error && one != fs::directory_iterator();
         one.increment(error)) {
        ++count;
    }
    return count;
}

} // namespace

std::optional<ProcessStat> parse_stat(std::string_view text) {
    const size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos || name_end + 4 > text.size()) {
        return std::nullopt;
    }
    const std::vector<std::int64_t> fields = numbers(text.substr(name_end + 2));
    if (fields.size() < kStatFields) {
        return std::nullopt;
    }
    const std::int64_t ticks = fields[11] + fields[12] + fields[13] + fields[14];
    return ProcessStat{
        .parent = static_cast<Pid>(fields[1]),
        .cpu_s = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)),
        .rss_bytes = static_cast<std::uint64_t>(fields[21] * ::sysconf(_SC_PAGESIZE))};
}

ProcessTable read_processes() {
    ProcessTable table;
    std::error_code error;
    for (fs::directory_iterator one("/proc", error); !error && one != fs::directory_iterator();
         one.increment(error)) {
        const std::optional<Pid> pid = parse_number<Pid>(one->path().filename().string());
        if (!pid) {
            continue;
        }
        if (const auto found = parse_stat(read_text(fmt::format("/proc/{}/stat", *pid)))) {
            table.emplace(*pid, *found);
        }
    }
    return table;
}

std::vector<Pid> descendants(Pid root, const ProcessTable& table) {
    std::vector<Pid> found;
    if (table.contains(root)) {
        found.push_back(root);
    }
    for (size_t at = 0; at < found.size(); ++at) {
        for (const auto& [pid, about] : table) {
            if (about.parent == found[at]) {
                found.push_back(pid);
            }
        }
    }
    return found;
}

TreeUse measure(const std::vector<Pid>& pids, const ProcessTable& table) {
    TreeUse use;
    for (const Pid pid : pids) {
        const ProcessStat& about = table.at(pid);
        use.cpu_s += about.cpu_s;
        use.rss_bytes += about.rss_bytes;
        use.descriptors += count_descriptors(pid);
    }
    return use;
}

std::uint64_t pss_bytes(const std::vector<Pid>& pids) {
    std::uint64_t total = 0;
    for (const Pid pid : pids) {
        const std::string text = read_text(fmt::format("/proc/{}/smaps_rollup", pid));
        const size_t at = text.find("\nPss:");
        const size_t digits = at == std::string::npos ? at : text.find_first_not_of(' ', at + 5);
        if (digits != std::string::npos) {
            std::uint64_t kib = 0;
            std::from_chars(text.data() + digits, text.data() + text.size(), kib);
            total += kib * 1024;
        }
    }
    return total;
}

} // namespace reprise::sampler
