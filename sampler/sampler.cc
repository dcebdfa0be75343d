#include "sampler/sampler.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/text.hh"
#include "sampler/host_counters.hh"
#include "sampler/tcp_states.hh"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::sampler {

namespace {

// Shares of one core; together with what every sample needs they stay below 1 %.
constexpr double kDumpShare = 0.005;
constexpr double kPssShare = 0.002;

} // namespace

Watched parse_watched(const std::string& text) {
    const size_t equals = text.find('=');
    Pid pid = 0;
    const bool good = equals != std::string::npos && equals > 0 &&
                      parse_number(std::string_view(text).substr(equals + 1), pid);
    if (!good || pid <= 0) {
        throw UsageError(fmt::format("--process {}: not NAME=PID; give e.g. server=42", text));
    }
    return {.name = text.substr(0, equals), .pid = pid};
}

std::string columns() {
    return "time_real_ns,time_mono_ns,host_cpu_s,host_steal_s,process,pid_count,cpu_s,rss_bytes,"
           "pss_bytes,fds,tcp_established,tcp_syn_recv,tcp_time_wait,tcp_fin_wait,tcp_close_wait,"
           "tcp_other,tcp_mem_bytes,udp_mem_bytes,rx_packets,tx_packets,rx_bytes,tx_bytes,"
           "slab_bytes,listen_drops,tcp_dumped,uncharged_s,elsewhere_s\n";
}

Sampler::Sampler(std::vector<Watched> watched, Nanoseconds interval,
                 std::vector<std::string> skipped, bool packet_work, Ports ports)
    : watched_(std::move(watched)), skipped_(std::move(skipped)),
      tcp_(kDumpShare, interval, std::move(ports)), packets_(packet_work),
      pss_(watched_.size(),
           ProportionalSize(kPssShare / static_cast<double>(watched_.size()), interval)) {}

std::string Sampler::host_part(bool exact) {
    const Sockets sockets =
        parse_sockets(read_text("/proc/self/net/sockstat"), read_text("/proc/self/net/sockstat6"),
                      read_text("/proc/self/net/snmp"));
    const TcpStates tcp = tcp_.sample(sockets, exact);
    const Traffic traffic = parse_traffic(read_text("/proc/self/net/dev"), skipped_);
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", tcp.established, tcp.syn_recv,
        tcp.time_wait, tcp.fin_wait, tcp.close_wait, tcp.other, sockets.tcp_pages * page,
        sockets.udp_pages * page, traffic.rx_packets, traffic.tx_packets, traffic.rx_bytes,
        traffic.tx_bytes, parse_kilobytes(read_text("/proc/meminfo"), "Slab:"),
        parse_listen_drops(read_text("/proc/self/net/netstat")), tcp_.dumped() ? 1 : 0);
}

void ProportionalSize::set(std::uint64_t bytes, std::uint64_t rss_bytes) {
    bytes_ = bytes;
    rss_bytes_ = rss_bytes;
}

std::uint64_t ProportionalSize::carried_on(std::uint64_t rss_bytes) const {
    const std::uint64_t now = bytes_ + rss_bytes;
    return now > rss_bytes_ ? now - rss_bytes_ : 0;
}

std::uint64_t ProportionalSize::sample(const std::vector<Pid>& pids, std::uint64_t rss_bytes,
                                       bool exact) {
    if (allowance_.earn() || exact) {
        const Nanoseconds begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
        set(pss_bytes(pids), rss_bytes);
        allowance_.spend(read_clock(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    return carried_on(rss_bytes);
}

std::string Sampler::sample(bool exact) {
    const std::string host = host_part(exact);
    const Cpu cpu = parse_cpu(read_text("/proc/stat"));
    const Nanoseconds real = read_clock(CLOCK_REALTIME);
    const Nanoseconds mono = read_clock(CLOCK_MONOTONIC);
    const ProcessTable table = read_processes();
    const std::string uncharged =
        packets_.works() ? fmt::format("{:.4f}", packets_.uncharged_s()) : "";
    std::string lines;
    for (size_t index = 0; index < watched_.size(); ++index) {
        const std::vector<Pid> pids = descendants(watched_[index].pid, table);
        const TreeUse use = measure(pids, table);
        lines += fmt::format(
            "{},{},{:.2f},{:.2f},{},{},{:.4f},{},{},{},{},{},{}\n", real, mono, cpu.busy_s,
            cpu.steal_s, watched_[index].name, pids.size(), use.cpu_s, use.rss_bytes,
            pss_[index].sample(pids, use.rss_bytes, exact), use.descriptors, host, uncharged,
            packets_.works() ? fmt::format("{:.4f}", packets_.elsewhere_s(pids)) : "");
    }
    return lines;
}

} // namespace reprise::sampler
