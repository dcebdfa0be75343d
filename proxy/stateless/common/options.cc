#include "proxy/stateless/common/options.hh"

#include "core/base/command_line.hh"
#include "core/base/error.hh"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace reprise::proxy {

namespace {

constexpr std::uint16_t kMostPort = 65'535;
constexpr unsigned kMostTimeout = 600'000; // the stamps of --front bpf come around in 1,100 s

constexpr std::array kReferenceOnly{"--tun", "--active", "--fin-last"};
constexpr std::array kBpfOnly{"--no-promote", "--entries", "--rotate", "--timed"};

void add_common(Command& command, StatelessOptions& options) {
    command
        .add_choice("--front", options.front,
                    {{"reference", FrontKind::kReference}, {"bpf", FrontKind::kBpf}},
                    "reference: a process on a TUN device; bpf: programs on the interface")
        .required();
    command
        .add_option("--interface", options.interfaces,
                    "interface toward the clients; connections that come in there are served; "
                    "reference: may be given several times")
        .allow_extra_args(false)
        .required();
    command.add_option("--port", options.port, "port of the DNS server, over TCP and UDP")
        .in_range<unsigned>(1, kMostPort)
        .show_default();
    command
        .add_option("--timeout-ms,--timeout", options.timeout_ms,
                    "how long to wait for the server's answer, ms")
        .in_range<unsigned>(1, kMostTimeout)
        .show_default();
    command
        .add_option("--loglevel", options.loglevel,
                    "0: start and end only, 1: warnings too, 2: the counts of each second too, "
                    "3: a line for each segment too (reference)")
        .in_range<unsigned>(0, 3)
        .show_default();
    command.add_option("--stats", options.stats,
                       "file for the counts, written as JSON every second and at the end");
    command.add_flag("--undo", options.undo,
                     "only undo what a killed front of this kind has left on the host");
    command
        .add_choice("--axfr-detect", options.axfr_detect, {{"0", false}, {"1", true}},
                    "1: zone transfers get a TCP connection of the server: reference relays AXFR "
                    "over one of its own, bpf gives AXFR and IXFR to the kernel's TCP; 0: treat "
                    "them like other queries (default: reference 0, bpf 1)")
        .type_name("0|1");
    command
        .add_option(
            "--truncate-udp", options.truncate_udp,
            "truncate replies over UDP that are longer than this many bytes, so that clients "
            "come over TCP; off unless given, 512 without a value, 0 for no limit")
        .in_range<unsigned>(0, kMostPort)
        .optional_value("512");
    command.add_flag("--early-ack,!--no-early-ack", options.early_ack,
                     "acknowledge a query as soon as it comes (default of reference); otherwise "
                     "the answer's first segment does (default of bpf)");
}

void add_reference(Command& command, StatelessOptions& options) {
    const auto group = "Front reference";
    command
        .add_option("--tun", options.tun,
                    "TUN device to which the connections are led; made where it is missing")
        .group(group)
        .show_default();
    command
        .add_choice("--active", options.active, {{"0", false}, {"1", true}},
                    "0: do nothing, the kernel's TCP serves (default); 1: serve")
        .type_name("0|1")
        .group(group);
    command
        .add_flag("--fin-last", options.fin_last,
                  "end the connection with the answer's last segment; otherwise no FIN is sent")
        .group(group);
}

void add_bpf(Command& command, StatelessOptions& options) {
    const auto group = "Front bpf";
    command
        .add_flag(
            "--promote,!--no-promote", options.promote,
            "give connections beyond one query and one segment to the kernel's TCP (default); "
            "otherwise they are reset and counted")
        .group(group);
    command.add_option("--entries", options.entries, "most queries in flight")
        .in_range<unsigned>(1, 1U << 24U)
        .group(group)
        .show_default();
    command
        .add_option("--rotate", options.rotate_s,
                    "how often to replace the secret for sequence numbers, s; the previous one "
                    "stays valid for one more period")
        .in_range<unsigned>(1, 30U * 24 * 3'600)
        .group(group)
        .show_default();
    command
        .add_flag("--timed", options.timed,
                  "measure how long the programs run, in_seconds and out_seconds of --stats; costs "
                  "two looks at the clock for each packet")
        .group(group);
}

} // namespace

Command add_stateless(Command& app, StatelessOptions& options) {
    Command command =
        app.add_subcommand("stateless", "beside a server: answers DNS over TCP without keeping "
                                        "connections; the server is asked over UDP");
    add_common(command, options);
    add_reference(command, options);
    add_bpf(command, options);
    return command;
}

void complete(const Command& command, StatelessOptions& options) {
    const bool is_bpf = options.front == FrontKind::kBpf;
    for (const char* const name :
         is_bpf ? std::span<const char* const>(kReferenceOnly) : kBpfOnly) {
        if (command.count(name) != 0) {
            throw UsageError(fmt::format("{0} is an option of --front {1}; leave it out, or give "
                                         "--front {1}",
                                         name, is_bpf ? "reference" : "bpf"));
        }
    }
    if (is_bpf && options.interfaces.size() > 1) {
        throw UsageError("--front bpf serves one --interface; start one for each");
    }
    const size_t early_ack = command.count("--early-ack");
    if (early_ack > 1) {
        throw UsageError("--early-ack or --no-early-ack is given twice; give one of them once");
    }
    if (early_ack == 0) {
        options.early_ack = !is_bpf;
    }
    if (command.count("--axfr-detect") == 0) {
        options.axfr_detect = is_bpf;
    }
}

} // namespace reprise::proxy
