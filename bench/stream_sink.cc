// reprise-stream-sink: answers every DNS query over TCP or TLS with the query itself, QR and AA
// set.
//
// A process has 20,000 descriptors, so several share the port (SO_REUSEPORT). They count in memory
// shared with their parent, which waits for the signal, ends them and prints the sums.
#include "bench/stream_counters.hh"
#include "bench/stream_link.hh"
#include "bench/stream_server.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/log.hh"
#include "core/base/signals.hh"

#include <openssl/types.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using nlohmann::ordered_json;
using reprise::check;
using reprise::kMillisecond;
using reprise::kSecond;
using namespace reprise::bench;

struct Options {
    std::uint16_t port = 53;
    std::size_t processes = 8;
    double idle_timeout_s = 0;
    std::uint32_t delay_ms = 0;
    TlsServerOptions tls;
};

SharedCounters& make_shared_counters() {
    void* const memory = mmap(nullptr, sizeof(SharedCounters), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw reprise::SystemError("mmap");
    }
    return *new (memory) SharedCounters;
}

void add(ordered_json& sum, const StreamCounters& one) {
    const auto plus = [&sum](const char* name, const Counter& counter) {
        sum[name] = sum.value(name, std::uint64_t{0}) + counter.load();
    };
    plus("queries", one.queries);
    plus("query_bytes", one.query_bytes);
    plus("reads", one.reads);
    plus("connections", one.connections);
    plus("handshakes", one.handshakes);
    plus("resumed", one.resumed);
    plus("early_data", one.early_data);
    plus("failed", one.failed);
    plus("closed_by_client", one.closed_by_client);
    plus("closed_idle", one.closed_idle);
    plus("open", one.open.open);
}

/// The sums, then each process.
ordered_json evidence(const SharedCounters& shared, std::size_t processes) {
    ordered_json all = ordered_json::object();
    ordered_json each = ordered_json::array();
    for (std::size_t i = 0; i < processes; ++i) {
        ordered_json one = ordered_json::object();
        add(all, shared.process.at(i));
        add(one, shared.process.at(i));
        one["peak_open"] = shared.process.at(i).open.peak.load();
        each.push_back(one);
    }
    all["peak_open"] = shared.open.peak.load();
    all["sources"] = shared.source_count();
    all["processes"] = each;
    return all;
}

/// The sink's processes; they end with this object, or with their parent.
class Workers {
public:
    Workers() = default;
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    ~Workers() {
        for (const int pid : pids_) {
            kill(pid, SIGKILL);
            waitpid(pid, nullptr, 0);
        }
    }

    /// `body` runs in a process of its own and does not return; it may throw.
    template <typename Body> void start(Body body) {
        const int parent = getpid();
        const int pid = check(fork(), "fork");
        if (pid != 0) {
            pids_.push_back(pid);
            return;
        }
        pids_.clear(); // they are the parent's
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        body();
    }

private:
    std::vector<int> pids_;
};

/// Blocked before anything starts, so that a signal is never lost; the workers are ended by
/// SIGKILL.
sigset_t prepare_signals() {
    check(std::signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -1 : 0, "signal");
    return reprise::block_signals({SIGINT, SIGTERM, SIGCHLD});
}

void add_options(reprise::Command& app, Options& options) {
    app.add_option("--port", options.port, "where to listen, on all addresses").show_default();
    app.add_option("--processes", options.processes, "so many share the port")
        .in_range(std::size_t{1}, kMostProcesses)
        .show_default();
    app.add_option("--idle-timeout-s", options.idle_timeout_s,
                   "close a connection that was idle for this time; 0: the client closes first")
        .in_range(0.0, 1e6)
        .show_default();
    app.add_option("--delay-ms", options.delay_ms, "answer this long after the query")
        .show_default();
    reprise::Option certificate =
        app.add_option("--cert", options.tls.certificate, "speak TLS with this certificate, PEM");
    reprise::Option key = app.add_option("--key", options.tls.key, "its key, PEM");
    certificate.needs(key);
    key.needs(certificate);
    app.add_option("--early-data", options.tls.early_data, "take this many bytes as early data")
        .needs(certificate)
        .show_default();
    app.add_option("--keylog", options.tls.keylog, "write the sessions' secrets there, for tshark")
        .needs(certificate);
}

StreamServerOptions server_options(const Options& options, SSL_CTX* tls) {
    return {.port = options.port,
            .idle_timeout = static_cast<reprise::Nanoseconds>(options.idle_timeout_s * kSecond),
            .delay = options.delay_ms * kMillisecond,
            .tls = tls,
            .early_data = options.tls.early_data > 0};
}

int serve(const Options& options) {
    const sigset_t ending = prepare_signals();
    const TlsContext tls =
        options.tls.certificate.empty() ? TlsContext() : make_server_context(options.tls);
    SharedCounters& shared = make_shared_counters();
    {
        Workers workers;
        for (std::size_t i = 0; i < options.processes; ++i) {
            // Made here, so that whoever reads "listening" below can connect.
            auto server = std::make_unique<StreamServer>(server_options(options, tls.get()),
                                                         shared.process.at(i), shared);
            workers.start([&server] { server->run(); });
        }
        std::cerr << "event=listening port=" << options.port << '\n';
        int signal = 0;
        sigwait(&ending, &signal);
        if (signal == SIGCHLD) {
            throw reprise::Error("a process of the sink ended; its message is above");
        }
    }
    std::cout << evidence(shared, options.processes).dump() << '\n';
    return 0;
}

int body(int argc, char** argv) {
    reprise::Command app(
        "Answers every DNS query over TCP or TLS with itself until SIGINT or SIGTERM; then "
        "prints what it saw as JSON.",
        "reprise-stream-sink");
    Options options;
    add_options(app, options);
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    return serve(options);
}

} // namespace

int main(int argc, char** argv) {
    return reprise::run_main("reprise-stream-sink", body, argc, argv);
}
