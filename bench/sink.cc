// reprise-sink: answers every DNS query that arrives at an interface, in the kernel (sink.bpf.c).
//
// The program hangs on a BPF link, whose only owner is this process: it is gone after any kind of
// exit.
#include "bench/evidence.h"
#include "bench_sink_bpf.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
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
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

using reprise::check;
using reprise::FileDescriptor;

/// BPF_TCX_INGRESS of linux/bpf.h; Debian's headers are older than the kernels that have it.
constexpr int kTcxIngress = 46;

struct CloseObject {
    void operator()(bpf_object* object) const { bpf_object__close(object); }
};

/// The programs, loaded and attached.
class Sink {
public:
    Sink(std::string interface, bool after_taps) : interface_(std::move(interface)) {
        load();
        attach(after_taps);
    }

    [[nodiscard]] nlohmann::ordered_json evidence() const {
        const SinkCounters sum = counters();
        std::vector<std::byte> bytes(sizeof(SinkSeen));
        read("seen", bytes.data());
        const auto* const seen = reinterpret_cast<const std::uint64_t*>(bytes.data());
        nlohmann::ordered_json all = nlohmann::ordered_json::object();
        all["queries4"] = sum.queries4;
        all["queries6"] = sum.queries6;
        all["query_bytes"] = sum.query_bytes;
        all["passed"] = sum.passed;
        all["sources"] = bits({seen, kSourceBits / 64});
        all["ports"] = bits({seen + kSourceBits / 64, kPortBits / 64});
        return all;
    }

private:
    void load() {
        const auto file = reprise::bpf::bench_sink_bpf();
        object_.reset(bpf_object__open_mem(file.data(), file.size(), nullptr));
        if (!object_ || bpf_object__load(object_.get()) != 0) {
            throw reprise::Error("the kernel refuses the sink's BPF programs; run as root on Linux "
                                 "6.6 or newer");
        }
    }

    void attach(bool after_taps) {
        const auto* name = after_taps ? "sink_tc" : "sink_xdp";
        const int program = bpf_program__fd(bpf_object__find_program_by_name(object_.get(), name));
        const unsigned index = if_nametoindex(interface_.c_str());
        if (index == 0) {
            throw reprise::UsageError(
                fmt::format("interface {} does not exist; see ip link", interface_));
        }
        const auto kind = static_cast<bpf_attach_type>(after_taps ? kTcxIngress : BPF_XDP);
        const int link = bpf_link_create(program, static_cast<int>(index), kind, nullptr);
        if (link == -EBUSY || link == -EEXIST) {
            throw reprise::Error(fmt::format("{} has another XDP program; remove it with: ip link "
                                             "set dev {} xdp off",
                                             interface_, interface_));
        }
        link_ = FileDescriptor(check(link, "attach the sink's program"));
    }

    void read(const char* map, void* value) const {
        const std::uint32_t first = 0;
        check(
            bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(object_.get(), map), &first, value),
            "read the sink's counters");
    }

    [[nodiscard]] SinkCounters counters() const {
        std::vector<SinkCounters> each(static_cast<size_t>(libbpf_num_possible_cpus()));
        read("counters", each.data());
        SinkCounters sum{};
        for (const SinkCounters& one : each) {
            sum.queries4 += one.queries4;
            sum.queries6 += one.queries6;
            sum.query_bytes += one.query_bytes;
            sum.passed += one.passed;
        }
        return sum;
    }

    static std::uint64_t bits(std::span<const std::uint64_t> words) {
        std::uint64_t count = 0;
        for (const std::uint64_t word : words) {
            count += static_cast<std::uint64_t>(std::popcount(word));
        }
        return count;
    }

    std::string interface_;
    std::unique_ptr<bpf_object, CloseObject> object_;
    FileDescriptor link_;
};

int body(int argc, char** argv) {
    reprise::Command app(
        "Answers every DNS query that arrives at an interface, in the kernel, until SIGINT "
        "or SIGTERM; then prints what it saw as JSON.",
        "reprise-sink");
    std::string interface;
    bool after_taps = false;
    app.add_option("INTERFACE", interface, "where the queries arrive").required();
    app.add_flag("--tc", after_taps, "answer behind the taps, so that tcpdump sees the queries");
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    const sigset_t ending = reprise::block_signals({SIGINT, SIGTERM});
    const Sink sink(interface, after_taps);
    std::cerr << "event=attached interface=" << interface << '\n';
    int signal = 0;
    sigwait(&ending, &signal);
    std::cout << sink.evidence().dump() << '\n';
    return 0;
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-sink", body, argc, argv); }
