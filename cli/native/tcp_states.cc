#include "cli/native/tcp_states.hh"

#include "cli/native/host_counters.hh"
#include "cli/native/sock_diag.hh"
#include "core/base/clock.hh"

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace reprise::sampler {

namespace {

constexpr std::uint64_t kMany = 2'000; // sockets; dumping them costs 2 ms
constexpr std::uint32_t kListening = 1U << kListen;
constexpr std::uint32_t kAll = 0x1fff & ~kListening & ~(1U << kClose) & ~1U;

constexpr std::uint32_t bit(TcpState state) { return 1U << state; }

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

Nanoseconds cpu_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

} // namespace

std::uint32_t dump_mask(const Sockets& kernel) {
    std::uint32_t mask = kAll;
    if (kernel.synchronized > kMany) {
        mask &= ~bit(kEstablished);
    }
    if (kernel.time_wait > kMany) {
        mask &= ~bit(kTimeWait);
    }
    return mask;
}

TcpStates states_of(const StateCounts& dump, std::uint32_t mask, const Sockets& kernel) {
    const auto has = [mask](TcpState state) { return (mask & bit(state)) != 0; };
    return {.established = has(kEstablished) ? dump[kEstablished]
                                             : minus(kernel.synchronized, dump[kCloseWait]),
            .syn_recv = dump[kSynRecv] + dump[kNewSynRecv],
            .time_wait = has(kTimeWait) ? dump[kTimeWait] : kernel.time_wait,
            .fin_wait = dump[kFinWait1] + dump[kFinWait2],
            .close_wait = dump[kCloseWait],
            .other = dump[kSynSent] + dump[kLastAck] + dump[kClosing]};
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
        const std::uint32_t mask = exact ? kAll : dump_mask(kernel);
        last_ = states_of(diag_.count(mask), mask, kernel);
        allowance_.spend(cpu_now() - begin);
    } else {
        last_ = carried_on(last_, kernel, diag_.count(kListening)[kListen]);
    }
    return last_;
}

} // namespace reprise::sampler
