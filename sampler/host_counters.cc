#include "sampler/host_counters.hh"

#include "core/base/fd.hh"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <string_view>
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

std::uint64_t number(std::string_view word) {
    std::uint64_t value = 0;
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
}

std::uint64_t number_at(const std::vector<std::string_view>& line, size_t index) {
    return index < line.size() ? number(line[index]) : 0;
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

/// A line "LABEL name value name value ...".
std::uint64_t named(std::string_view text, std::string_view label, std::string_view name) {
    const std::vector<std::string_view> line = line_of(text, label);
    for (size_t at = 1; at + 1 < line.size(); ++at) {
        if (line[at] == name) {
            return number(line[at + 1]);
        }
    }
    return 0;
}

/// Two lines, "LABEL name name ..." and "LABEL value value ...".
std::uint64_t below(std::string_view text, std::string_view label, std::string_view name) {
    const std::vector<std::string_view> names = line_of(text, label);
    const std::vector<std::string_view> values = line_of(text, label, 1);
    for (size_t at = 0; at < names.size(); ++at) {
        if (names[at] == name) {
            return number_at(values, at);
        }
    }
    return 0;
}

} // namespace

std::string read_text(const std::string& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text;
    std::array<char, 16'384> piece{};
    for (;;) {
        const auto got = ::read(file.get(), piece.data(), piece.size());
        if (got <= 0) {
            return text;
        }
        text.append(piece.data(), static_cast<size_t>(got));
    }
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

std::uint64_t parse_slab_bytes(std::string_view meminfo) {
    return number_at(line_of(meminfo, "Slab:"), 1) * 1024;
}

} // namespace reprise::sampler
