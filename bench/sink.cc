// reprise-sink: the servers that the benches measure against, which answer each DNS query with
// itself; `udp` in the kernel, where the queries arrive (sink.bpf.c), `tcp` in processes
// (tcp_sink.cc). At SIGINT or SIGTERM it prints what it saw as JSON.
//
// The BPF program hangs on a link, whose only owner is this process: it is gone after any kind of
// exit.
#include "bench/evidence.h"
#include "bench/tcp_sink.hh"
#include "bench_sink_bpf.hh"
#include "core/base/bpf.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"

#include <fmt/format.h>

#include <bit>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <net/if.h>
#include <span>
#include <string>

namespace {

using reprise::check;
using reprise::FileDescriptor;
using reprise::Json;
using reprise::Signals;
using namespace reprise::bench;

/// BPF_TCX_INGRESS of linux/bpf.h; Debian's headers are older than the kernels that have it.
constexpr int kTcxIngress = 46;

/// Hangs the program on the interface for as long as the descriptor is open.
FileDescriptor attach(const reprise::BpfObject& object, const std::string& interface,
                      bool after_taps) {
    const auto* name = after_taps ? "sink_tc" : "sink_xdp";
    const int program = bpf_program__fd(bpf_object__find_program_by_name(object.get(), name));
    const unsigned index = if_nametoindex(interface.c_str());
    reprise::demand(index != 0, fmt::format("interface {} does not exist; see ip link", interface));
    const auto kind = static_cast<bpf_attach_type>(after_taps ? kTcxIngress : BPF_XDP);
    const int link = bpf_link_create(program, static_cast<int>(index), kind, nullptr);
    if (link == -EBUSY || link == -EEXIST) {
        throw reprise::Error(fmt::format("{0} has another XDP program; remove it with: ip link "
                                         "set dev {0} xdp off",
                                         interface));
    }
    return FileDescriptor(check(link, "attach the sink's program"));
}

std::uint64_t bits(std::span<const __u64> words) {
    std::uint64_t count = 0;
    for (const __u64 word : words) {
        count += static_cast<std::uint64_t>(std::popcount(word));
    }
    return count;
}

Json serve_udp(const std::string& interface, bool after_taps, const Signals& ending) {
    const reprise::BpfObject object = reprise::open_bpf(reprise::bpf::bench_sink_bpf(), "sink");
    if (bpf_object__load(object.get()) != 0) {
        throw reprise::Error("the kernel refuses the sink's BPF programs; run as root on Linux "
                             "6.6 or newer");
    }
    const FileDescriptor link = attach(object, interface, after_taps);
    std::cerr << "event=attached interface=" << interface << '\n';
    static_cast<void>(ending.next(reprise::kForEver));
    const auto map = [&](const char* name) {
        return bpf_map__fd(reprise::bpf_map_of(object, name));
    };
    const auto seen = std::make_unique<SinkSeen>();
    const std::uint32_t first = 0;
    check(bpf_map_lookup_elem(map("seen"), &first, seen.get()), "read the sink's evidence");
    const int counters = map("counters");
    return {{"queries4", reprise::bpf_count(counters, kQueries4)},
            {"queries6", reprise::bpf_count(counters, kQueries6)},
            {"passed", reprise::bpf_count(counters, kPassed)},
            {"sources", bits(seen->sources)},
            {"ports", bits(seen->ports)}};
}

int body(int argc, char** argv) {
    reprise::Command app("Answers every DNS query with itself until SIGINT or SIGTERM; then prints "
                         "what it saw as JSON.",
                         "reprise-sink");
    std::string interface;
    bool after_taps = false;
    TcpOptions options;
    app.require_subcommand(1);
    reprise::Command udp =
        app.add_subcommand("udp", "Answers what arrives at an interface, in the kernel");
    udp.add_option("INTERFACE", interface, "where the queries arrive").required();
    udp.add_flag("--tc", after_taps, "answer behind the taps, so that tcpdump sees the queries");
    reprise::Command tcp = app.add_subcommand("tcp", "Answers over TCP or TLS, on all addresses");
    tcp.add_option("--port", options.port, "where to listen").show_default();
    tcp.add_option("--processes", options.processes, "so many share the port")
        .in_range(std::size_t{1}, kMostProcesses)
        .show_default();
    tcp.add_option("--delay-ms", options.delay_ms, "answer this long after the query")
        .show_default();
    reprise::Option certificate =
        tcp.add_option("--cert", options.certificate, "speak TLS with this certificate, PEM");
    reprise::Option key = tcp.add_option("--key", options.key, "its key, PEM");
    certificate.needs(key);
    key.needs(certificate);
    tcp.add_option("--early-data", options.early_data, "take this many bytes as early data")
        .needs(certificate)
        .show_default();
    tcp.add_option("--keylog", options.keylog, "write the sessions' secrets there, for tshark")
        .needs(certificate);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    const Signals ending{SIGINT, SIGTERM, SIGCHLD};
    const Json seen = app.got_subcommand("udp") ? serve_udp(interface, after_taps, ending)
                                                : serve_tcp(options, ending);
    std::cout << reprise::json_text(seen) << '\n';
    return 0;
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-sink", body, argc, argv); }
