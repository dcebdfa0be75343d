#include "sampler/sampler.hh"

#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/netlink.hh"
#include "core/base/text.hh"
#include "packet_work_bpf.hh"
#include "sampler/host_counters.hh"
#include "sampler/packet_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <linux/bpf.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::sampler {
namespace {

// Shares of one core; together with what every sample needs they stay below 1 %.
constexpr double kDumpShare = 0.005;
constexpr double kPssShare = 0.002;

constexpr std::uint64_t kMany = 2'000; // sockets; dumping them costs 2 ms
constexpr std::uint32_t kListening = 1U << BPF_TCP_LISTEN;
constexpr std::uint32_t kAll = 0x1fff & ~kListening & ~(1U << BPF_TCP_CLOSE) & ~1U;

constexpr std::uint32_t bit(unsigned state) { return 1U << state; }

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

Nanoseconds cpu_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

} // namespace

StateCounts SockDiag::count(std::uint32_t mask, const Ports& ports) {
    inet_diag_req wanted{}; // the older of the two requests: only that one asks for both families
    wanted.idiag_states = mask;
    NetlinkRequest request(TCPDIAG_GETSOCK, NLM_F_DUMP, wanted);
    for (int again = 3;; --again) {
        StateCounts counts{};
        const int error = netlink_.each(request, [&](const NetlinkMessage& message) {
            const auto socket = message.header<inet_diag_msg>();
            if (ports.empty() ||
                std::ranges::find(ports, ntohs(socket.id.idiag_sport)) != ports.end()) {
                ++counts[socket.idiag_state % counts.size()];
            }
        });
        if (error == 0 || error == ENOENT) { // a kernel without the diagnosis of TCP
            return counts;
        }
        if (again == 0) {
            throw SystemError("read from sock_diag", error);
        }
        netlink_ = open_();
    }
}

std::uint32_t dump_mask(const Sockets& kernel) {
    std::uint32_t mask = kAll;
    if (kernel.synchronized > kMany) {
        mask &= ~bit(BPF_TCP_ESTABLISHED);
    }
    if (kernel.time_wait > kMany) {
        mask &= ~bit(BPF_TCP_TIME_WAIT);
    }
    return mask;
}

TcpStates states_of(const StateCounts& dump, std::uint32_t mask, const Sockets& kernel) {
    const auto has = [mask](unsigned state) { return (mask & bit(state)) != 0; };
    return {.established = has(BPF_TCP_ESTABLISHED)
                               ? dump[BPF_TCP_ESTABLISHED]
                               : minus(kernel.synchronized, dump[BPF_TCP_CLOSE_WAIT]),
            .syn_recv = dump[BPF_TCP_SYN_RECV] + dump[BPF_TCP_NEW_SYN_RECV],
            .time_wait = has(BPF_TCP_TIME_WAIT) ? dump[BPF_TCP_TIME_WAIT] : kernel.time_wait,
            .fin_wait = dump[BPF_TCP_FIN_WAIT1] + dump[BPF_TCP_FIN_WAIT2],
            .close_wait = dump[BPF_TCP_CLOSE_WAIT],
            .other = dump[BPF_TCP_SYN_SENT] + dump[BPF_TCP_LAST_ACK] + dump[BPF_TCP_CLOSING]};
}

TcpStates carried_on(const TcpStates& last, const Sockets& kernel, std::uint64_t listening) {
    TcpStates now = last;
    now.time_wait = kernel.time_wait;
    now.close_wait = std::min(last.close_wait, kernel.synchronized);
    now.established = kernel.synchronized - now.close_wait;
    const std::uint64_t rest = minus(kernel.tcp, listening + kernel.synchronized);
    now.fin_wait = std::min(last.fin_wait, rest);
    now.other = rest - now.fin_wait;
    return now;
}

TcpStates TcpCounter::sample(const Sockets& kernel, bool exact) {
    dumped_ = allowance_.earn() || exact;
    if (dumped_) {
        const Nanoseconds begin = cpu_now();
        const std::uint32_t mask = exact || !ports_.empty() ? kAll : dump_mask(kernel);
        last_ = states_of(diag_.count(mask, ports_), mask, kernel);
        allowance_.spend(cpu_now() - begin);
    } else if (ports_.empty()) {
        last_ = carried_on(last_, kernel, diag_.count(kListening)[BPF_TCP_LISTEN]);
    }
    return last_;
}

PacketWork::PacketWork(bool wanted) {
    if (wanted) {
        try {
            attach();
        } catch (const SystemError&) {
            links_.clear(); // a sum of some of them would be wrong
        }
    }
}

void PacketWork::attach() {
    struct stat network{};
    struct stat processes{};
    check(::stat("/proc/self/ns/net", &network), "see the network namespace");
    check(::stat("/proc/self/ns/pid", &processes), "see the PID namespace");
    const PacketWorkSettings settings{.device = processes.st_dev,
                                      .processes = processes.st_ino,
                                      .network = static_cast<std::uint32_t>(network.st_ino),
                                      .unused = 0};
    object_ = open_bpf(bpf::packet_work_bpf(), "packet_work");
    check(bpf_map__set_initial_value(bpf_map_of(object_, ".rodata.settings"), &settings,
                                     sizeof settings),
          "set up a BPF program");
    check(bpf_object__load(object_.get()), "load a BPF program");
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object_.get()) {
        links_.emplace_back(bpf_program__attach(program), bpf_link__destroy);
        check(links_.back() ? 0 : -1, "attach a BPF program");
    }
}

double PacketWork::uncharged_s() const {
    const int map = bpf_map__fd(bpf_map_of(object_, "uncharged"));
    return static_cast<double>(bpf_count(map, 0)) / double{kSecond};
}

double PacketWork::elsewhere_s(const std::vector<Pid>& pids) const {
    const int map = bpf_map__fd(bpf_map_of(object_, "elsewhere"));
    std::uint64_t sum = 0;
    for (const Pid pid : pids) {
        std::uint64_t one = 0;
        if (bpf_map_lookup_elem(map, &pid, &one) == 0) {
            sum += one;
        }
    }
    return static_cast<double>(sum) / double{kSecond};
}

Watched parse_watched(const std::string& text) {
    const size_t equals = text.find('=');
    Pid pid = 0;
    const bool good = equals != std::string::npos && equals > 0 &&
                      parse_number(std::string_view(text).substr(equals + 1), pid);
    demand(good && pid > 0, fmt::format("--process {}: not NAME=PID; give e.g. server=42", text));
    return {.name = text.substr(0, equals), .pid = pid};
}

Sampler::Sampler(std::vector<Watched> watched, Nanoseconds interval,
                 std::vector<std::string> skipped, bool packet_work, Ports ports)
    : watched_(std::move(watched)), skipped_(std::move(skipped)),
      tcp_(kDumpShare, interval, std::move(ports)), packets_(packet_work),
      pss_(watched_.size(),
           ProportionalSize(kPssShare / static_cast<double>(watched_.size()), interval)) {}

std::uint64_t ProportionalSize::sample(const std::vector<Pid>& pids, std::uint64_t rss_bytes,
                                       bool exact) {
    if (allowance_.earn() || exact) {
        const Nanoseconds begin = cpu_now();
        set(pss_bytes(pids), rss_bytes);
        allowance_.spend(cpu_now() - begin);
    }
    return carried_on(rss_bytes);
}

std::string Sampler::sample(bool exact) {
    const Sockets sockets =
        parse_sockets(read_text("/proc/self/net/sockstat"), read_text("/proc/self/net/sockstat6"),
                      read_text("/proc/self/net/snmp"));
    const TcpStates tcp = tcp_.sample(sockets, exact);
    const Traffic traffic = parse_traffic(read_text("/proc/self/net/dev"), skipped_);
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::string host = fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", tcp.established, tcp.syn_recv,
        tcp.time_wait, tcp.fin_wait, tcp.close_wait, tcp.other, sockets.tcp_pages * page,
        sockets.udp_pages * page, traffic.rx_packets, traffic.tx_packets, traffic.rx_bytes,
        traffic.tx_bytes, parse_kilobytes(read_text("/proc/meminfo"), "Slab:"),
        parse_listen_drops(read_text("/proc/self/net/netstat")), tcp_.dumped() ? 1 : 0);
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
