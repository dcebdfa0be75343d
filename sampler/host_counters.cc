#include "sampler/host_counters.hh"

#include "core/base/clock.hh"
#include "core/base/text.hh"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace reprise::sampler {

namespace {

/// The next piece up to one of `ends`, which leaves `text`.
std::string_view take(std::string_view& text, std::string_view ends) {
    const size_t at = text.find_first_of(ends);
    const std::string_view piece = text.substr(0, at);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
    return piece;
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> found;
    while (!line.empty()) {
        const std::string_view word = take(line, " \t\n");
        if (!word.empty()) {
            found.push_back(word);
        }
    }
    return found;
}

std::uint64_t number_at(const std::vector<std::string_view>& line, size_t index) {
    return index < line.size() ? parse_number<std::uint64_t>(line[index]).value_or(0) : 0;
}

/// The words of the `nth` line that begins with `label`.
std::vector<std::string_view> line_of(std::string_view text, std::string_view label, int nth = 0) {
    while (!text.empty()) {
        const std::string_view line = take(text, "\n");
        if (line.starts_with(label) && nth-- == 0) {
            return words(line);
        }
    }
    return {};
}

/// Its size where the word is not in the line.
size_t index_of(const std::vector<std::string_view>& line, std::string_view word) {
    return static_cast<size_t>(std::ranges::find(line, word) - line.begin());
}

/// A line "LABEL name value name value ...".
std::uint64_t named(std::string_view text, std::string_view label, std::string_view name) {
    const std::vector<std::string_view> line = line_of(text, label);
    return number_at(line, index_of(line, name) + 1);
}

/// Two lines of as many words, "LABEL name name ..." and "LABEL value value ...".
std::uint64_t below(std::string_view text, std::string_view label, std::string_view name) {
    return number_at(line_of(text, label, 1), index_of(line_of(text, label), name));
}

namespace fs = std::filesystem;

constexpr size_t kStatFields = 22; // of /proc/PID/stat behind the name, up to rss

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

/// What all threads of a process have used, by its clock; none where it is gone, or where this
/// /proc shows another PID namespace than ours.
std::optional<double> exact_cpu_s(Pid pid) {
    static const bool kIsOurs = [] {
        std::error_code error;
        return fs::read_symlink("/proc/self", error) == std::to_string(::getpid());
    }();
    clockid_t clock{};
    if (!kIsOurs || ::clock_getcpuclockid(pid, &clock) != 0) {
        return std::nullopt;
    }
    return static_cast<double>(read_clock(clock)) / double{kSecond};
}

} // namespace

std::string read_text(const std::string& path) {
    const std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Cpu parse_cpu(std::string_view stat) {
    const std::vector<std::string_view> fields = line_of(stat, "cpu ");
    const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
    std::uint64_t busy = 0;
    for (const size_t index : {1U, 2U, 3U, 6U, 7U}) { // user, nice, system, irq, softirq
        busy += number_at(fields, index);
    }
    return {.busy_s = static_cast<double>(busy) / tick,
            .steal_s = static_cast<double>(number_at(fields, 8)) / tick};
}

Sockets parse_sockets(std::string_view sockstat, std::string_view sockstat6,
                      std::string_view snmp) {
    return {.tcp = named(sockstat, "TCP:", "inuse") + named(sockstat6, "TCP6:", "inuse"),
            .time_wait = named(sockstat, "TCP:", "tw"),
            .synchronized = below(snmp, "Tcp:", "CurrEstab"),
            .tcp_pages = named(sockstat, "TCP:", "mem"),
            .udp_pages = named(sockstat, "UDP:", "mem")};
}

std::uint64_t parse_listen_drops(std::string_view netstat) {
    return below(netstat, "TcpExt:", "ListenDrops");
}

Traffic parse_traffic(std::string_view net_dev, const std::vector<std::string>& skipped) {
    Traffic total;
    while (!net_dev.empty()) {
        std::string_view line = take(net_dev, "\n");
        if (line.find(':') == std::string_view::npos) {
            continue; // one of the two lines of headings
        }
        const std::vector<std::string_view> name = words(take(line, ":"));
        if (name.empty() || name.front() == "lo" ||
            std::ranges::find(skipped, name.front()) != skipped.end()) {
            continue;
        }
        const std::vector<std::string_view> fields = words(line);
        total.rx_bytes += number_at(fields, 0);
        total.rx_packets += number_at(fields, 1);
        total.tx_bytes += number_at(fields, 8);
        total.tx_packets += number_at(fields, 9);
    }
    return total;
}

std::uint64_t parse_kilobytes(std::string_view text, std::string_view label) {
    return number_at(line_of(text, label), 1) * 1024;
}

std::optional<ProcessStat> parse_stat(std::string_view text) {
    const size_t name_end = text.rfind(')');
    if (name_end == std::string_view::npos || name_end + 4 > text.size()) {
        return std::nullopt;
    }
    const std::vector<std::string_view> fields = words(text.substr(name_end + 2));
    if (fields.size() < kStatFields) {
        return std::nullopt;
    }
    const auto seconds = [&fields](size_t user, size_t system) {
        return static_cast<double>(number_at(fields, user) + number_at(fields, system)) /
               static_cast<double>(::sysconf(_SC_CLK_TCK));
    };
    return ProcessStat{.parent = static_cast<Pid>(number_at(fields, 1)),
                       .own_cpu_s = seconds(11, 12),
                       .children_cpu_s = seconds(13, 14),
                       .rss_bytes = number_at(fields, 21) *
                                    static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
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
            if (about.parent == found[at] && pid != root) { // numbers go round while /proc is read
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
        use.cpu_s += exact_cpu_s(pid).value_or(about.own_cpu_s) + about.children_cpu_s;
        use.rss_bytes += about.rss_bytes;
        use.descriptors += count_descriptors(pid);
    }
    return use;
}

std::uint64_t pss_bytes(const std::vector<Pid>& pids) {
    std::uint64_t total = 0;
    for (const Pid pid : pids) {
        total += parse_kilobytes(read_text(fmt::format("/proc/{}/smaps_rollup", pid)), "Pss:");
    }
    return total;
}

} // namespace reprise::sampler
