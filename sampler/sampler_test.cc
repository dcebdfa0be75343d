#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/netlink.hh"
#include "sampler/host_counters.hh"
#include "sampler/sampler.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <ctime>
#include <linux/bpf.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace reprise::sampler {
namespace {

TEST(Allowance, CheapWorkIsDoneEveryTime) {
    Allowance allowance(0.01, kSecond);
    for (int n = 0; n < 5; ++n) {
        EXPECT_TRUE(allowance.earn());
        allowance.spend(9 * kMillisecond);
    }
}

TEST(Allowance, DearWorkWaitsUntilItIsEarned) {
    Allowance allowance(0.01, kSecond);
    EXPECT_TRUE(allowance.earn());
    allowance.spend(25 * kMillisecond);
    EXPECT_FALSE(allowance.earn());
    EXPECT_FALSE(allowance.earn());
    EXPECT_TRUE(allowance.earn());
}

/// A listening socket and a connection to it, over the loopback.
struct Pair {
    explicit Pair(int family) : listener(::socket(family, SOCK_STREAM, 0)) {
        sockaddr_storage address{};
        socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        address.ss_family = static_cast<sa_family_t>(family);
        if (family == AF_INET) {
            reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        } else {
            reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
        }
        auto* const raw = reinterpret_cast<sockaddr*>(&address);
        check(::bind(listener.get(), raw, size), "bind");
        check(::listen(listener.get(), 1), "listen");
        check(::getsockname(listener.get(), raw, &size), "getsockname");
        port = Endpoint::from_sockaddr(address).port;
        client = FileDescriptor(::socket(family, SOCK_STREAM, 0));
        check(::connect(client.get(), raw, size), "connect");
        // Or else the listener's end may not be established yet, on a busy machine.
        accepted = FileDescriptor(check(::accept(listener.get(), nullptr, nullptr), "accept"));
    }

    FileDescriptor listener;
    FileDescriptor client;
    FileDescriptor accepted;
    std::uint16_t port = 0; ///< of the listener
};

TEST(SockDiag, SeesConnectionsOfBothFamilies) {
    SockDiag diag;
    const Pair four(AF_INET);
    const Pair six(AF_INET6);
    EXPECT_GE(diag.count(0x1fff)[BPF_TCP_ESTABLISHED], 4); // both ends of each
    EXPECT_EQ(diag.count(1U << BPF_TCP_LISTEN)[BPF_TCP_ESTABLISHED], 0);
    EXPECT_GE(diag.count(1U << BPF_TCP_LISTEN)[BPF_TCP_LISTEN], 2);
}

TEST(SockDiag, CountsTheSocketsOfSomePorts) {
    const Pair one(AF_INET);
    const Pair other(AF_INET6);
    SockDiag diag;
    EXPECT_EQ(diag.count(1U << BPF_TCP_ESTABLISHED, {one.port})[BPF_TCP_ESTABLISHED],
              1); // not the client's end
    EXPECT_EQ(diag.count(1U << BPF_TCP_ESTABLISHED, {other.port, one.port})[BPF_TCP_ESTABLISHED],
              2);
}

/// A part of the answer to the first request: one connection, or without one the end.
void answer(const FileDescriptor& kernel, std::uint16_t type, std::uint16_t flags) {
    struct {
        nlmsghdr head;
        inet_diag_msg socket;
    } part{};

    part.head.nlmsg_len = type == NLMSG_DONE ? sizeof part.head : sizeof part;
    part.head.nlmsg_type = type;
    part.head.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_MULTI);
    part.head.nlmsg_seq = 1;
    part.socket.idiag_state = BPF_TCP_ESTABLISHED;
    check(::send(kernel.get(), &part, part.head.nlmsg_len, 0), "send");
}

/// A socket whose other end has answered; where it was broken off the end is missing.
Netlink answered(std::uint16_t flags, bool whole) {
    std::array<int, 2> pair{};
    check(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), "socketpair");
    static std::vector<FileDescriptor> kernels; // open for as long as somebody reads
    const FileDescriptor& kernel = kernels.emplace_back(pair[1]);
    answer(kernel, TCPDIAG_GETSOCK, flags);
    if (whole) {
        answer(kernel, NLMSG_DONE, flags);
    }
    return Netlink(FileDescriptor(pair[0]));
}

TEST(SockDiag, MakesADumpAgainThatWasBrokenOffOrInterrupted) {
    unsigned opened = 0;
    SockDiag diag([&opened] {
        ++opened;
        return answered(opened == 2 ? NLM_F_DUMP_INTR : 0, opened > 1);
    });
    EXPECT_EQ(diag.count(0x1fff)[BPF_TCP_ESTABLISHED], 1);
    EXPECT_EQ(opened, 3U);
}

TEST(SockDiag, GivesUpAfterThree) {
    unsigned opened = 0;
    SockDiag diag([&opened] {
        ++opened;
        return answered(0, false);
    });
    EXPECT_THROW(diag.count(0x1fff), SystemError);
    EXPECT_EQ(opened, 4U);
}

TEST(TcpStates, TheKernelsNumbersStandForManySockets) {
    const Sockets few{.time_wait = 7, .synchronized = 5};
    const Sockets many{.time_wait = 9'000, .synchronized = 100'000};
    EXPECT_NE(dump_mask(few) & (1U << BPF_TCP_ESTABLISHED), 0);
    EXPECT_EQ(dump_mask(many) & (1U << BPF_TCP_ESTABLISHED), 0);
    StateCounts dump{};
    dump[BPF_TCP_CLOSE_WAIT] = 10;
    dump[BPF_TCP_NEW_SYN_RECV] = 3;
    dump[BPF_TCP_FIN_WAIT1] = dump[BPF_TCP_FIN_WAIT2] = 2;
    const TcpStates found = states_of(dump, dump_mask(many), many);
    EXPECT_EQ(found.established, 99'990);
    EXPECT_EQ(found.time_wait, 9'000);
    EXPECT_EQ(found.syn_recv, 3);
    EXPECT_EQ(found.fin_wait, 4);
}

TEST(TcpStates, SamplesBetweenDumpsHoldTheSums) {
    const TcpStates last{.established = 90, .syn_recv = 1, .fin_wait = 6, .close_wait = 10};
    const Sockets kernel{.tcp = 60, .time_wait = 40, .synchronized = 50};
    const TcpStates now = carried_on(last, kernel, 2);
    EXPECT_EQ(now.established + now.close_wait, 50);
    EXPECT_EQ(now.time_wait, 40);
    EXPECT_EQ(now.fin_wait + now.other, 8);
    EXPECT_EQ(now.fin_wait, 6);
    const TcpStates empty = carried_on(last, Sockets{}, 2);
    EXPECT_EQ(empty.established + empty.close_wait + empty.fin_wait + empty.other, 0);
}

TEST(HostCounters, ParsesTheKernelsTexts) {
    const Sockets found = parse_sockets(
        "sockets: used 6\nTCP: inuse 5 orphan 0 tw 4 alloc 7 mem 24\nUDP: inuse 1 mem 2\n",
        "TCP6: inuse 3\nUDP6: inuse 0\n",
        "Ip: Forwarding\nIp: 1\nTcp: RtoMin CurrEstab InSegs\nTcp: 200 17 9\n");
    EXPECT_EQ(found.tcp, 8);
    EXPECT_EQ(found.time_wait, 4);
    EXPECT_EQ(found.synchronized, 17);
    EXPECT_EQ(found.tcp_pages, 24);
    EXPECT_EQ(found.udp_pages, 2);
    EXPECT_EQ(parse_listen_drops("TcpExt: A ListenDrops\nTcpExt: 1 5\nIpExt: X\nIpExt: 1\n"), 5);
    EXPECT_EQ(parse_kilobytes("MemTotal: 9 kB\nSlab:    12 kB\n", "Slab:"), 12'288);
}

TEST(HostCounters, MissingPartsAreZero) {
    EXPECT_EQ(parse_sockets("", "TCP6:", "Tcp: CurrEstab").synchronized, 0);
    EXPECT_EQ(parse_listen_drops("TcpExt: ListenDrops"), 0);
    EXPECT_EQ(parse_cpu("").busy_s, 0);
    EXPECT_EQ(read_text("/proc/none"), "");
}

TEST(HostCounters, TrafficLeavesTheLoopbackOut) {
    const Traffic found = parse_traffic(
        "Inter-|\n face |\n    lo: 9 9 0 0 0 0 0 0 9 9 0\n data1: 100 2 0 0 0 0 0 0 300 4 0\n");
    EXPECT_EQ(found.rx_packets, 2);
    EXPECT_EQ(found.tx_packets, 4);
    EXPECT_EQ(found.rx_bytes, 100);
    EXPECT_EQ(found.tx_bytes, 300);
}

TEST(HostCounters, TrafficLeavesOutWhatPassesASecondTime) {
    const std::string text =
        " reprise1: 100 2 0 0 0 0 0 0 300 4 0\n data1: 10 1 0 0 0 0 0 0 30 3 0\n";
    EXPECT_EQ(parse_traffic(text).rx_packets, 3);
    const Traffic found = parse_traffic(text, {"reprise0", "reprise1"});
    EXPECT_EQ(found.rx_packets, 1);
    EXPECT_EQ(found.tx_packets, 3);
}

TEST(HostCounters, CpuIsBusyTimeAndSteal) {
    const auto tick = static_cast<double>(::sysconf(_SC_CLK_TCK));
    const Cpu found = parse_cpu("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 1 1\n");
    EXPECT_DOUBLE_EQ(found.busy_s, 163 / tick);
    EXPECT_DOUBLE_EQ(found.steal_s, 8 / tick);
}

TEST(ProcessTree, NamesMayHoldAnything) {
    const std::string text = "42 (a ) b) S 7 0 0 0 0 0 0 0 0 0 100 50 25 25 0 0 0 0 0 0 3 0";
    const ProcessStat found = parse_stat(text).value_or(ProcessStat{});
    EXPECT_EQ(found.parent, 7);
    EXPECT_EQ(found.rss_bytes, static_cast<std::uint64_t>(3 * ::sysconf(_SC_PAGESIZE)));
    EXPECT_DOUBLE_EQ(found.own_cpu_s, 150.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    EXPECT_DOUBLE_EQ(found.children_cpu_s, 50.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    EXPECT_FALSE(parse_stat("42 (a) S 7"));
    EXPECT_FALSE(parse_stat(""));
}

TEST(ProcessTree, HoldsAllGenerations) {
    const ProcessTable table{{1, {}}, {5, {.parent = 1}}, {6, {.parent = 5}}, {7, {.parent = 6}}};
    EXPECT_EQ(descendants(5, table), (std::vector<Pid>{5, 6, 7}));
    EXPECT_TRUE(descendants(99, table).empty());
    EXPECT_EQ(descendants(5, {{5, {.parent = 6}}, {6, {.parent = 5}}}), (std::vector<Pid>{5, 6}));
}

TEST(ProcessTree, ReadsThisProcess) {
    const ProcessTable table = read_processes();
    const Pid own = ::getpid();
    ASSERT_TRUE(table.contains(own));
    const TreeUse use = measure({own}, table);
    EXPECT_GT(use.rss_bytes, 0);
    EXPECT_GE(use.descriptors, 3);
    EXPECT_GT(pss_bytes({own}), 0);
}

TEST(ProcessTree, CpuIsExact) {
    const ProcessTable table = read_processes();
    const auto used = [] { return read_clock(CLOCK_PROCESS_CPUTIME_ID); };
    const double before = measure({::getpid()}, table).cpu_s;
    for (const Nanoseconds until = used() + kMillisecond; used() < until;) {
    }
    EXPECT_GE(measure({::getpid()}, table).cpu_s - before, 0.001); // less than a step of the table
}

TEST(Sampler, LinesHaveTheHeadingsColumns) {
    Sampler sampler({{.name = "me", .pid = ::getpid()}, {.name = "nobody", .pid = 1 << 30}},
                    kSecond);
    const std::string lines = sampler.sample(false);
    EXPECT_EQ(std::ranges::count(lines, '\n'), 2);
    EXPECT_EQ(std::ranges::count(lines, ','), 2 * std::ranges::count(kColumns, ','));
    EXPECT_NE(lines.find(",nobody,0,0.0000,0,0,0,"), std::string::npos);
}

TEST(Sampler, PssGrowsWithResidentMemoryBetweenReadings) {
    ProportionalSize size(0.001, kSecond);
    size.set(100, 250);
    EXPECT_EQ(size.carried_on(250), 100);
    EXPECT_EQ(size.carried_on(400), 250);
    EXPECT_EQ(size.carried_on(160), 10);
    EXPECT_EQ(size.carried_on(0), 0);
}

TEST(Sampler, WatchedProcessesAreNamed) {
    EXPECT_EQ(parse_watched("server=42").pid, 42);
    for (const char* const bad :
         {"server", "=42", "server=", "server=x", "server=4x", "server=-1"}) {
        EXPECT_THROW(parse_watched(bad), UsageError) << bad;
    }
}

} // namespace
} // namespace reprise::sampler
