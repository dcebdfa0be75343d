#include "sampler/tcp_states.hh"

#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/netlink.hh"
#include "sampler/host_counters.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <linux/bpf.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>

namespace reprise::sampler {

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

namespace {

constexpr std::uint64_t kMany = 2'000; // sockets; dumping them costs 2 ms
constexpr std::uint32_t kListening = 1U << BPF_TCP_LISTEN;
constexpr std::uint32_t kAll = 0x1fff & ~kListening & ~(1U << BPF_TCP_CLOSE) & ~1U;

constexpr std::uint32_t bit(unsigned state) { return 1U << state; }

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

Nanoseconds cpu_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

} // namespace

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

} // namespace reprise::sampler
